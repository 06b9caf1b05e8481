// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.{
  BufferedOutputStream, File, FileNotFoundException, FileOutputStream, IOException, OutputStream
}
import java.nio.file.{Files, FileSystemException, Path => NioPath, StandardCopyOption}
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  FileAlreadyExistsException, FileStatus, FSDataInputStream, Path, PathFilter, StreamCapabilities,
  Syncable
}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.checkpointing.{
  CheckpointFileManager, FileContextBasedCheckpointFileManager
}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** A checkpoint file manager that writes `file:` paths without forking a process for each file.
  * Hadoop's local file system forks to set permissions if its native library is missing. Spark's
  * own manager does all reading.
  *
  * A file is written under a temporary name. It is then renamed or, if it must not replace another,
  * linked, which fails if the name is taken. On a file system without hard links it is renamed
  * after a look whether the name is free, as Spark's own manager does: of two writers at the same
  * moment both may then think that they have written it.
  *
  * Streams obey `hsync`: what was written before is on the disk when it returns.
  */
class LocalCheckpointFileManager(path: Path, hadoopConf: Configuration)
    extends CheckpointFileManager {
  private val spark = new FileContextBasedCheckpointFileManager(path, hadoopConf)
  private val withoutLinks = ConcurrentHashMap.newKeySet[NioPath]() // folders

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CancellableFSDataOutputStream = {
    val target = nio(path)
    val temporary = target.resolveSibling(s".${target.getFileName}.${UUID.randomUUID()}.tmp")
    new LocalStream(target, temporary, overwriteIfPossible, open(temporary, path))
  }

  override def open(path: Path): FSDataInputStream = spark.open(path)
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = spark.list(path, filter)
  override def mkdirs(path: Path): Unit = { Files.createDirectories(nio(path)); () }
  override def exists(path: Path): Boolean = Files.exists(nio(path))
  override def delete(path: Path): Unit = spark.delete(path)
  override def isLocal: Boolean = spark.isLocal

  override def createCheckpointDirectory(): Path = {
    val qualified = path.getFileSystem(hadoopConf).makeQualified(path)
    mkdirs(qualified)
    qualified
  }

  /** Gives a file a second name. Throws if that is taken, or if there are no hard links. */
  protected def hardLink(link: NioPath, file: NioPath): Unit = { Files.createLink(link, file); () }

  /** As Hadoop's local file system does it, because of paths such as `/C:/folder` on Windows. */
  private def nio(path: Path): NioPath = new File(path.toUri.getPath).toPath

  private def open(temporary: NioPath, path: Path): OutputStream =
    try new LocalCheckpointFileManager.SyncableOutput(new FileOutputStream(temporary.toFile))
    catch {
      case e: FileNotFoundException if !Files.exists(temporary.getParent) =>
        throw new FileNotFoundException(s"The folder of $path does not exist.").initCause(e)
    }

  private final class LocalStream(
      target: NioPath,
      temporary: NioPath,
      overwrite: Boolean,
      out: OutputStream
  ) extends CancellableFSDataOutputStream(out) {
    private var isDone = false

    override def close(): Unit = synchronized {
      if (!isDone) {
        isDone = true
        try {
          super.close()
          if (!overwrite) link()
          else {
            /* If Spark's own manager wrote the replaced file, its checksum file exists. The new
             * file could not be read with that checksum. */
            Files.deleteIfExists(target.resolveSibling(s".${target.getFileName}.crc"))
            Files.move(temporary, target, StandardCopyOption.ATOMIC_MOVE)
            ()
          }
        } finally { Files.deleteIfExists(temporary); () }
      }
    }

    override def cancel(): Unit = synchronized {
      if (!isDone) {
        isDone = true
        try out.close()
        finally { Files.deleteIfExists(temporary); () }
      }
    }

    private def link(): Unit =
      try LocalCheckpointFileManager.link(target, temporary, hardLink, withoutLinks)
      catch {
        case _: java.nio.file.FileAlreadyExistsException =>
          throw new FileAlreadyExistsException(s"$target exists and must not be replaced.")
      }
  }
}

private object LocalCheckpointFileManager extends Logging {
  @volatile private var saysLinksAreMissing = true

  /** Gives a file its name if the name is free. Throws FileAlreadyExistsException if it is not.
    *
    * @param withoutLinks
    *   folders that are known to have none; the file's is added if it has none
    */
  private[checkpoint] def link(
      target: NioPath,
      temporary: NioPath,
      hardLink: (NioPath, NioPath) => Unit,
      withoutLinks: java.util.Set[NioPath] = ConcurrentHashMap.newKeySet()
  ): Unit = {
    val folder = target.getParent
    try hardLink(target, temporary)
    catch {
      case taken: java.nio.file.FileAlreadyExistsException => throw taken
      case e @ (_: UnsupportedOperationException | _: FileSystemException)
          if withoutLinks.contains(folder) || lacksLinks(folder, hardLink) =>
        withoutLinks.add(folder) // the next file needs no probe
        if (Files.exists(target))
          throw new java.nio.file.FileAlreadyExistsException(target.toString)
        Files.move(temporary, target) // throws, too, if the name is taken meanwhile, mostly
        if (saysLinksAreMissing) {
          saysLinksAreMissing = false
          logWarning(
            s"The file system of $target has no hard links ($e), so a file can be created twice: " +
              "make sure that no two drivers run a query of this checkpoint at the same time."
          )
        }
    }
  }

  /** Whether a file in a folder can be made and renamed, but gets no second name. What the error of
    * a link says is in the user's language. Other errors, such as a full disk, must not cost the
    * exclusive create.
    */
  private def lacksLinks(folder: NioPath, hardLink: (NioPath, NioPath) => Unit): Boolean = {
    val probe = folder.resolve(s".probe.${UUID.randomUUID()}.tmp")
    val second = folder.resolve(s".probe.${UUID.randomUUID()}.tmp")
    try {
      Files.write(probe, Array[Byte](1))
      try { hardLink(second, probe); false }
      catch {
        case _: UnsupportedOperationException | _: FileSystemException =>
          Files.move(probe, second)
          true
      }
    } catch { case _: IOException => false }
    finally Seq(probe, second).foreach(Files.deleteIfExists(_))
  }

  /** A file that can be forced to the disk. An interrupt does not close it, as it would a channel:
    * a query that is stopped while it writes a record goes on to write it.
    */
  private final class SyncableOutput(file: FileOutputStream)
      extends BufferedOutputStream(file, BufferBytes)
      with Syncable
      with StreamCapabilities {
    override def hasCapability(capability: String): Boolean =
      capability == StreamCapabilities.HSYNC
    override def hflush(): Unit = flush()
    override def hsync(): Unit = { flush(); file.getFD.sync() }
  }

  private val BufferBytes = 1 << 13
}
