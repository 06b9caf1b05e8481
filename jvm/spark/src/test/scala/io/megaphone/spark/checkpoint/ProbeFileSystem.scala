// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.{IOException, OutputStream}
import java.net.URI
import java.util.concurrent.{ConcurrentLinkedQueue, Semaphore}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FSDataInputStream, FSDataOutputStream, Path}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.security.AccessControlException
import org.apache.hadoop.util.Progressable

import io.megaphone.spark.faults.AskedFileSystem

/** A file system that is not Hadoop's local one: `probe:` paths over local folders. As many stores
  * of objects it does not rename over a file that is there, unless it is told to. It counts what it
  * is asked for, takes its time, and fails as it is told to.
  */
final class ProbeFileSystem extends AskedFileSystem("probe") {
  import ProbeFileSystem._

  override def create(
      path: Path,
      overwrite: Boolean,
      bufferBytes: Int,
      replication: Short,
      blockBytes: Long,
      progress: Progressable
  ): FSDataOutputStream =
    filling(path, super.create(path, overwrite, bufferBytes, replication, blockBytes, progress))

  override def rename(from: Path, to: Path): Boolean = {
    asked("rename", to)
    def renamed = (isReplacing || !pathToFile(to).isFile) && super.rename(from, to)
    Fault.OfRenames.find(strikes(_, to)) match {
      case Some(Fault.RenameSaysNo) => false
      case Some(Fault.RenameThrows) =>
        throw new IOException(s"The connection was lost before $to was renamed.")
      case Some(Fault.AnswerIsLost) =>
        renamed; throw new IOException(s"The connection was lost after $to was renamed.")
      case Some(Fault.RenameHangs) =>
        released.acquireUninterruptibly()
        try renamed
        finally lateRenames.incrementAndGet()
      case _ => renamed
    }
  }

  override def open(path: Path, bufferBytes: Int): FSDataInputStream = {
    if (strikes(Fault.OpenHangs, path)) released.acquireUninterruptibly()
    super.open(path, bufferBytes)
  }

  override def listStatus(path: Path): Array[FileStatus] = {
    asked("list", path)
    if (strikes(Fault.ListHangs, path)) released.acquireUninterruptibly()
    if (strikes(Fault.ListThrows, path)) throw new IOException(s"$path may not be listed.")
    super.listStatus(path)
  }
  override def delete(path: Path, recursive: Boolean): Boolean = {
    asked("delete", path)
    if (strikes(Fault.DeleteHangs, path)) {
      released.acquireUninterruptibly()
      lateDeletes.incrementAndGet()
    }
    super.delete(path, recursive)
  }

  override def mkdirs(path: Path): Boolean = { asked("mkdirs", path); super.mkdirs(path) }

  /** As a manager of files asks for it; a file's folders are made by the one above. */
  override def mkdirs(path: Path, permission: FsPermission): Boolean = {
    if (strikes(Fault.MkdirsHangs, path)) released.acquireUninterruptibly()
    super.mkdirs(path, permission)
  }
  override def getFileStatus(path: Path): FileStatus = {
    asked("status", path); super.getFileStatus(path)
  }

  override protected def asked(operation: String, path: Path): Unit = {
    operations.add(Asked(operation, path.toUri.getPath))
    if (delayMs > 0) Thread.sleep(delayMs)
  }

  override def initialize(uri: URI, conf: Configuration): Unit = {
    if (isGuarded && conf.get(Secret) != "open")
      throw new AccessControlException("The secret is missing.")
    if (strikes(Fault.ConnectHangs, new Path(uri))) released.acquireUninterruptibly()
    super.initialize(uri, conf)
  }

  private def strikes(kind: Fault.Kind, path: Path): Boolean =
    faults.exists(f => f.kind == kind && f.concerns(path) && f.strikes())

  private def filling(path: Path, out: FSDataOutputStream): FSDataOutputStream =
    if (!strikes(Fault.DiskIsFull, path)) out
    else
      new FSDataOutputStream(
        new OutputStream {
          override def write(b: Int): Unit = full()
          override def write(b: Array[Byte], offset: Int, length: Int): Unit = {
            out.write(b, offset, length / 2); full()
          }
          override def close(): Unit = out.close()
          private def full() = throw new IOException("No space left on device")
        },
        null
      )
}

object ProbeFileSystem {

  /** An operation that was asked for. */
  final case class Asked(operation: String, path: String)

  /** What goes wrong, with files whose path has a part in it, so many times. */
  final case class Fault(kind: Fault.Kind, part: String, times: Int) {
    private val left = new AtomicInteger(times)
    def concerns(path: Path): Boolean = path.toString.contains(part)
    def strikes(): Boolean = left.getAndDecrement() > 0

    /** How often it has struck. */
    def struck: Int = times - math.max(0, left.get)
  }

  object Fault {
    sealed abstract class Kind(val words: String)
    case object RenameSaysNo extends Kind("a rename that says no")
    case object RenameThrows extends Kind("a rename that fails")
    case object AnswerIsLost extends Kind("a rename whose answer is lost")
    case object RenameHangs extends Kind("a rename that hangs")
    case object ListThrows extends Kind("a list that fails")
    case object ListHangs extends Kind("a list that hangs")
    case object ConnectHangs extends Kind("a file system that hangs as it is made")
    case object OpenHangs extends Kind("an opening that hangs")
    case object DeleteHangs extends Kind("a delete that hangs")
    case object MkdirsHangs extends Kind("folders whose making hangs")
    case object DiskIsFull extends Kind("a disk that is full")
    val OfRenames: Seq[Kind] = Seq(RenameSaysNo, RenameThrows, AnswerIsLost, RenameHangs)
  }

  @volatile var faults: Seq[Fault] = Nil
  @volatile var delayMs = 0L

  /** Whether it opens only for a configuration that has the secret. */
  @volatile var isGuarded = false
  val Secret = "fs.probe.secret"

  /** Hadoop would keep a file system for all configurations. */
  val NoCache = "fs.probe.impl.disable.cache"

  /** Whether it renames over a file that is there, as local disks do, and HDFS where Spark's
    * manager asks it to.
    */
  @volatile var isReplacing = false

  /** Lets operations that hang go on, one for each permit; counts those that have. */
  val released = new Semaphore(0)
  val lateRenames, lateDeletes = new AtomicInteger
  private val operations = new ConcurrentLinkedQueue[Asked]

  /** What was asked for since the last call, in order. */
  def takeAsked(): Seq[Asked] = {
    val all = operations.asScala.toVector; all.foreach(_ => operations.poll()); all
  }
}
