// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.IOException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{
  CommonPathCapabilities, FileAlreadyExistsException, FileSystem, FSDataInputStream,
  FSDataOutputStream, FSDataOutputStreamBuilder, Path
}

import io.megaphone.checkpoint.AtomicOutput

/** A file system whose files appear as a whole when they are closed, each by one request, such as
  * Hadoop's S3A. Spark's file managers write a temporary file there and copy it, which takes about
  * twenty requests, and two writers of one name may both succeed.
  *
  * Threads: any.
  *
  * @param canCreate
  *   whether the store itself refuses to create what is there already
  */
final private[checkpoint] class ObjectStore(fs: FileSystem, val canCreate: Boolean) {
  import ObjectStore._

  /** Creates a file, unless it is there already: the store decides, so of two writers one succeeds.
    * Returns false if it is there. Throws what the store throws; then the file may be there or not.
    */
  def create(path: Path, bytes: Array[Byte]): Boolean =
    try {
      val out = created(path, isOver = false)(_.must(ConditionalCreate, true))
      try {
        out.write(bytes)
        out.close()
      } catch { case e: Throwable => abort(out, e); throw e }
      true
    } catch { case e: IOException if isThere(e) => false }

  /** Writes a file, whatever is there. */
  def replace(path: Path): AtomicOutput = {
    val out = created(path, isOver = true)(_.opt(NoChecks, true))
    new AtomicOutput {
      override def write(b: Int): Unit = out.write(b)
      override def write(b: Array[Byte], offset: Int, length: Int): Unit =
        out.write(b, offset, length)
      override def close(): Unit = out.close()
      override def cancel(): Unit = { out.abort(); () }
    }
  }

  /** Opens a file. Returns its length, too. Asks for its status once. */
  def open(path: Path): (FSDataInputStream, Long) = {
    val status = fs.getFileStatus(path)
    val builder = fs.openFile(path).withFileStatus(status)
    builder.opt(ReadPolicy, "random")
    try builder.build().get() -> status.getLen
    catch {
      case e: java.util.concurrent.ExecutionException if e.getCause.isInstanceOf[IOException] =>
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

  private def abort(out: FSDataOutputStream, why: Throwable): Unit =
    try { out.abort(); () }
    catch { case e: Exception => why.addSuppressed(e) }
}

private[checkpoint] object ObjectStore {

  /** The object store that a path is in, if it is in one: a file there appears when it is closed,
    * and not at all if it is aborted. Throws what the file system throws.
    */
  def of(path: Path, hadoopConf: Configuration): Option[ObjectStore] = {
    val fs = path.getFileSystem(hadoopConf)
    Option.when(fs.hasPathCapability(path, CommonPathCapabilities.ABORTABLE_STREAM))(
      new ObjectStore(fs, fs.hasPathCapability(path, ConditionalCreate))
    )
  }

  // Hadoop 3.4.1 has no constants for these; a file system ignores optional ones.
  private val ConditionalCreate = "fs.option.create.conditional.overwrite"
  private val NoChecks = "fs.s3a.create.performance" // whether the path is a folder
  private val ReadPolicy = "fs.option.openfile.read.policy"

  /** Whether an error says that the file is there. S3A's own class is not on the class path. */
  private def isThere(error: Throwable): Boolean =
    Iterator.iterate(error)(_.getCause).takeWhile(_ != null).exists {
      case _: FileAlreadyExistsException => true
      case e => e.getClass.getSimpleName == "RemoteFileChangedException"
    }
}
