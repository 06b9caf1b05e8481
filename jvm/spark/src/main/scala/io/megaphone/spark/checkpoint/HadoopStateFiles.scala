// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.io.{BufferedOutputStream, FileNotFoundException, IOException}
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, Path}
import org.apache.hadoop.hdfs.client.HdfsDataInputStream
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.megaphone.checkpoint.{AtomicOutput, StateFiles, SweptFiles}
import io.megaphone.errors.{DamagedFileException, MissingFileException}
import io.megaphone.format.{FileName, FileSource}

/** The delta files of one store of one operator in a checkpoint, through Spark's checkpoint file
  * manager: `<state>/<operator>/<worker>[/<store>]/<version>[_<id>].delta`.
  */
final class HadoopStateFiles(operatorFolder: Path, store: String, hadoopConf: Configuration)
    extends StateFiles {
  private lazy val files = CheckpointFileManager.create(operatorFolder, hadoopConf)
  private lazy val fileSystem = operatorFolder.getFileSystem(hadoopConf)
  private lazy val objects = ObjectStore.of(operatorFolder, hadoopConf)
  private val made = ConcurrentHashMap.newKeySet[Int]()

  /** Where a file is. Throws DamagedFileException if its id, which Spark's commit log has, would
    * lead out of the worker's folder.
    */
  def path(file: FileName): Path = {
    if (file.name.id.exists(HadoopStateFiles.Separators.contains(_)))
      throw new DamagedFileException(
        new Path(operatorFolder.getParent.getParent, "commits").toString,
        None,
        "checkpoint ids without any of " + HadoopStateFiles.Separators.mkString(" "),
        file.name.id
      )
    val folder = folderOf(file.worker)
    new Path(folder, file.toString.substring(file.toString.indexOf('/') + 1))
  }

  /** The folder of a worker. */
  def folderOf(worker: Int): Path = {
    val folder = new Path(operatorFolder, worker.toString)
    if (store == "default") folder else new Path(folder, store)
  }

  override def create(file: FileName): AtomicOutput =
    objects.fold(createFile(file))(_.replace(path(file)))

  private def createFile(file: FileName): AtomicOutput = {
    if (!made.contains(file.worker)) { files.mkdirs(folderOf(file.worker)); made.add(file.worker) }
    val stream =
      try files.createAtomic(path(file), overwriteIfPossible = true)
      catch { case e: FileNotFoundException => made.remove(file.worker); throw e } // it is gone
    val buffered = new BufferedOutputStream(stream, 1 << 16)
    new AtomicOutput {
      override def write(b: Int): Unit = buffered.write(b)
      override def write(b: Array[Byte], offset: Int, length: Int): Unit =
        buffered.write(b, offset, length)
      override def close(): Unit = { buffered.flush(); stream.close() }
      override def cancel(): Unit = stream.cancel()
    }
  }

  override def open(file: FileName): FileSource = {
    val at = path(file)
    try {
      val (stream, length) = objects.fold(opened(at))(_.open(at))
      made.add(file.worker) // its folder is there
      new HadoopSource(at.toString, stream, length)
    } catch { case _: FileNotFoundException => throw new MissingFileException(at.toString) }
  }

  /** HDFS says how long a file is as it is opened; others are asked. */
  private def opened(at: Path) = {
    val stream = files.open(at)
    try
      stream match {
        case ofHdfs: HdfsDataInputStream => stream -> ofHdfs.getVisibleLength
        case _ => stream -> fileSystem.getFileStatus(at).getLen
      }
    catch {
      case e: Throwable =>
        try stream.close()
        catch { case again: IOException => e.addSuppressed(again) }
        throw e
    }
  }

  /** All workers' files of this store, for the sweep. */
  def swept: SweptFiles = new SweptFiles {
    private lazy val all = workers.map(list)

    override def listed: Vector[FileName] = all.flatMap(_.files)
    override def delete(file: FileName): Unit = files.delete(path(file))
    override def deleteUnfinished(before: Long): Unit = for {
      worker <- all
      (file, temporary) <- worker.unfinished
      if file.name.version < before
    } files.delete(temporary)
  }

  private def workers: Vector[Int] = files
    .list(operatorFolder)
    .iterator
    .filter(_.isDirectory)
    .flatMap(_.getPath.getName.toIntOption)
    .toVector

  /** The files of a worker; those that are not ours are not listed. */
  private def list(worker: Int): HadoopStateFiles.Listed = {
    val paths =
      try files.list(folderOf(worker)).toVector.filterNot(_.isDirectory).map(_.getPath)
      catch { case _: FileNotFoundException => Vector.empty }
    HadoopStateFiles.Listed(
      paths.flatMap(p => FileName.parse(worker, p.getName)),
      paths.flatMap(p =>
        HadoopStateFiles.finalName(p.getName).flatMap(FileName.parse(worker, _)).map(_ -> p)
      )
    )
  }

  private final class HadoopSource(val name: String, stream: FSDataInputStream, val length: Long)
      extends FileSource {
    override def read(position: Long, count: Int): Array[Byte] = {
      val bytes = new Array[Byte](count)
      stream.readFully(position, bytes)
      bytes
    }
    override def close(): Unit = stream.close()
  }
}

object HadoopStateFiles {

  /** @param unfinished
    *   temporary files that an attempt has not renamed (yet), with the name they were to get
    */
  private final case class Listed(files: Vector[FileName], unfinished: Vector[(FileName, Path)])

  /** What a checkpoint id has none of. */
  private val Separators = "/\\.:"
  private val Temporary = """\.(.+\.delta)\..+\.tmp""".r

  /** The name that a temporary file of our file manager or one of Spark's is renamed to. */
  private def finalName(temporary: String): Option[String] = temporary match {
    case Temporary(name) => Some(name)
    case _ => None
  }
}
