// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.IOException
import java.lang.{Boolean => JBoolean}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Collections, UUID, WeakHashMap}
import java.util.concurrent.ExecutionException

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  CommonPathCapabilities, FileAlreadyExistsException, FileSystem, FSDataInputStream,
  FSDataOutputStream, FSDataOutputStreamBuilder, Path
}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.internal.SQLConf

import io.megaphone.checkpoint.AtomicOutput

/** A file system whose files appear as a whole when they are closed, each by one request, such as
  * Hadoop's S3A. Spark's file managers write a temporary file there and copy it, which takes about
  * twenty requests, and two writers of one name may both succeed.
  *
  * Threads: any.
  */
final private[checkpoint] class ObjectStore(fs: FileSystem) extends Logging {
  import ObjectStore._

  /** Whether `create` can be relied on in a folder. It is tried out with a file that is deleted
    * again: some file systems pass the condition on to none, and some stores ignore it. A file
    * system that was found to refuse is not tried again.
    */
  def refuses(folder: Path): Boolean =
    Refusing.contains(fs) || fs.hasPathCapability(folder, ConditionalCreate) && {
      val probe = new Path(folder, s".probe-${UUID.randomUUID}")
      try
        try {
          val isRefused = create(probe, Array(1)) && !create(probe, Array(2))
          if (isRefused) { Refusing.add(fs); () }
          isRefused
        } finally fs.delete(probe, false)
      catch {
        case NonFatal(e) =>
          logInfo(s"$folder does not know how to create a file only if there is none: $e")
          false
      }
    }

  /** Creates a file, unless it is there already: the store decides, so of two writers one succeeds.
    * Returns false if it is there. Throws what the store throws; then the file may be there or not.
    */
  def create(path: Path, bytes: Array[Byte]): Boolean =
    try {
      val out = createNew(path)
      try {
        out.write(bytes)
        out.close()
      } catch { case e: Throwable => out.cancel(); throw e }
      true
    } catch { case _: FileAlreadyExistsException => false }

  /** The same, in pieces. Here or when it is closed, FileAlreadyExistsException says that the file
    * is there, by another writer: the file names its writer, in case an answer is lost and the
    * client tries again.
    */
  def createNew(path: Path): AtomicOutput = refusing(path) {
    val writer = UUID.randomUUID.toString
    val out = created(path, isOver = false) { builder =>
      builder.must(ConditionalCreate, true)
      builder.opt(WriterOption, writer)
    }
    new Output(out) {
      override def close(): Unit =
        try refusing(path)(super.close())
        catch { case e: FileAlreadyExistsException => if (!isBy(path, writer)) throw e }
    }
  }

  private def isBy(path: Path, writer: String): Boolean =
    try new String(fs.getXAttr(path, WriterAttribute), UTF_8) == writer
    catch {
      case NonFatal(e) =>
        logInfo(s"$path does not say who wrote it: $e")
        false
    }

  /** Writes a file, whatever is there. */
  def replace(path: Path): AtomicOutput =
    new Output(created(path, isOver = true)(_.opt(NoChecks, true)))

  /** Opens a file. Returns its length, too. Asks for its status once. */
  def open(path: Path): (FSDataInputStream, Long) = {
    val status = fs.getFileStatus(path)
    val builder = fs.openFile(path).withFileStatus(status)
    builder.opt(ReadPolicy, "random")
    try builder.build().get() -> status.getLen
    catch {
      case e: ExecutionException if e.getCause.isInstanceOf[IOException] =>
        throw e.getCause
    }
  }

  private def created(path: Path, isOver: Boolean)(
      options: FSDataOutputStreamBuilder[_, _] => Any
  ): FSDataOutputStream = {
    val builder: FSDataOutputStreamBuilder[_, _] = fs.createFile(path)
    builder.overwrite(isOver)
    builder.recursive() // no folder has to be there
    options(builder)
    builder.build().asInstanceOf[FSDataOutputStream]
  }

  private def refusing[A](path: Path)(put: => A): A =
    try put
    catch {
      case e: IOException if isThere(e) =>
        throw new FileAlreadyExistsException(s"$path exists and must not be replaced.").initCause(e)
    }

  private class Output(out: FSDataOutputStream) extends AtomicOutput {
    override def write(b: Int): Unit = out.write(b)
    override def write(b: Array[Byte], offset: Int, length: Int): Unit =
      out.write(b, offset, length)
    override def close(): Unit = out.close()

    /** Nobody has seen the file. If aborting it fails, there is no file either. */
    override def cancel(): Unit =
      try { out.abort(); () }
      catch { case NonFatal(e) => logInfo(s"A file that was given up could not be aborted: $e") }
  }
}

private[checkpoint] object ObjectStore {

  /** The object store that a path is in, if it is in one: a file there appears when it is closed,
    * and not at all if it is aborted. None if the user has chosen a file manager, which may do more
    * than write. Throws what the file system throws.
    */
  def of(path: Path, hadoopConf: Configuration): Option[ObjectStore] = {
    val fs = path.getFileSystem(hadoopConf)
    val manager = hadoopConf.get(FileManager, "")
    val isKnown = manager.isEmpty || KnownManagers.exists(manager.startsWith)
    Option.when(isKnown && fs.hasPathCapability(path, CommonPathCapabilities.ABORTABLE_STREAM))(
      new ObjectStore(fs)
    )
  }

  private val Refusing =
    Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap[FileSystem, JBoolean]))

  private val FileManager = SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key
  private val KnownManagers = Seq("org.apache.spark.", "io.megaphone.")

  // Hadoop 3.4.1 has no constants for these; a file system ignores optional ones.
  private val ConditionalCreate = "fs.option.create.conditional.overwrite"
  private val NoChecks = "fs.s3a.create.performance" // whether the path is a folder
  private val WriterOption = "fs.s3a.create.header.megaphone-writer"
  private val WriterAttribute = "header.megaphone-writer"
  private val ReadPolicy = "fs.option.openfile.read.policy"

  /** Whether an error says that the file is there. S3A's own class is not on the class path. */
  private def isThere(error: Throwable): Boolean =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).exists {
      case _: FileAlreadyExistsException => true
      case e => e.getClass.getSimpleName == "RemoteFileChangedException"
    }
}
