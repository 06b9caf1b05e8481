// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.{ByteArrayOutputStream, IOException}
import java.net.URI
import java.nio.file.{FileAlreadyExistsException, Files, Path => NioPath, StandardCopyOption}
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{
  Abortable, FileStatus, FSDataInputStream, FSDataOutputStream, FSDataOutputStreamBuilder, Path,
  RawLocalFileSystem
}

/** An object store: `objects:` paths over local folders. A file appears when it is closed, not at
  * all if it is aborted, and only if there is none if the writer asks for that. It counts requests.
  */
final class ProbeObjectStore extends RawLocalFileSystem {
  import ProbeObjectStore._

  private lazy val disk = {
    val raw = new RawLocalFileSystem
    raw.initialize(URI.create("file:///"), getConf)
    raw
  }

  override def getUri: URI = URI.create("objects:///")
  override def getScheme: String = "objects"

  override def hasPathCapability(path: Path, capability: String): Boolean = capability match {
    case "fs.capability.outputstream.abortable" => true
    case Conditional => conditions != Unknown
    case _ => super.hasPathCapability(path, capability)
  }

  override def createFile(path: Path): FSDataOutputStreamBuilder[_, _] = new Builder(path)

  override def getFileStatus(path: Path): FileStatus = {
    requests.add(s"HEAD ${path.getName}"); super.getFileStatus(path)
  }
  override def open(path: Path, bufferBytes: Int): FSDataInputStream = {
    requests.add(s"GET ${path.getName}")
    disk.open(new Path(path.toUri.getPath), bufferBytes) // its own asks for the status first
  }

  override def rename(from: Path, to: Path): Boolean = {
    requests.add(s"COPY ${to.getName}"); super.rename(from, to)
  }

  private final class Builder(path: Path)
      extends FSDataOutputStreamBuilder[FSDataOutputStream, Builder](this, path) {
    override def getThisBuilder: Builder = this
    override def build(): FSDataOutputStream = {
      val isAsked = getMandatoryKeys.contains(Conditional)
      if (isAsked && conditions == Rejected)
        throw new IllegalArgumentException(s"Unknown mandatory key $Conditional")
      val isNew = isAsked && conditions == Kept
      new FSDataOutputStream(new Put(pathToFile(path).toPath, isNew, getOptions.get(Writer)), null)
    }
  }

  override def getXAttr(path: Path, name: String): Array[Byte] = {
    requests.add(s"HEAD ${path.getName}")
    assert(name == "header.megaphone-writer")
    writers.get(pathToFile(path).toPath).getBytes
  }
}

object ProbeObjectStore {
  private val Writer = "fs.s3a.create.header.megaphone-writer"
  private val writers = new ConcurrentHashMap[NioPath, String]
  private val Conditional = "fs.option.create.conditional.overwrite"

  /** What the store does with the condition that there is no file. */
  sealed abstract class Conditions(val words: String)
  case object Kept extends Conditions("it should")
  case object Ignored extends Conditions("no condition at all")
  case object Rejected extends Conditions("an argument that it does not know")
  case object Unknown extends Conditions("something that it does not offer")
  val all: Seq[Conditions] = Seq(Kept, Ignored, Rejected, Unknown)

  @volatile var conditions: Conditions = Kept

  /** How often a put of a name with a part in it is carried out, and says that it failed. */
  @volatile var lostAnswers: Map[String, Int] = Map.empty

  /** Puts of names with this in them are sent twice, because the first answer is lost. */
  @volatile var sentTwice = Option.empty[String]

  val requests = new ConcurrentLinkedQueue[String]

  /** The requests since the last call. */
  def takeRequests(): Seq[String] = {
    val all = requests.asScala.toVector; all.foreach(_ => requests.poll()); all
  }

  /** Named as S3A names it. */
  final class RemoteFileChangedException(path: NioPath) extends IOException(s"412: $path")

  private final class Put(path: NioPath, isNew: Boolean, writer: String)
      extends ByteArrayOutputStream
      with Abortable {
    private var isOver = false

    override def close(): Unit = if (!isOver) {
      isOver = true
      if (sentTwice.exists(path.toString.contains)) put()
      put()
      for ((part, left) <- lostAnswers if left > 0 && path.toString.contains(part)) {
        lostAnswers += part -> (left - 1)
        throw new IOException(s"The connection was lost after $path was put.")
      }
    }

    private def put(): Unit = {
      requests.add(s"PUT ${path.getFileName}")
      Files.createDirectories(path.getParent)
      val unnamed = Files.createTempFile(path.getParent, ".", ".part")
      Files.write(unnamed, toByteArray)
      try
        if (isNew) Files.createLink(path, unnamed)
        else Files.copy(unnamed, path, StandardCopyOption.REPLACE_EXISTING)
      catch { case _: FileAlreadyExistsException => throw new RemoteFileChangedException(path) }
      finally Files.delete(unnamed)
      if (writer != null) { writers.put(path, writer); () }
    }

    override def abort(): Abortable.AbortableResult = {
      isOver = true
      new Abortable.AbortableResult {
        override def alreadyClosed(): Boolean = false
        override def anyCleanupException(): IOException = null
      }
    }
  }
}
