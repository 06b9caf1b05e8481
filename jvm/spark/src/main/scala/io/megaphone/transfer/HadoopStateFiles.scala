// SPDX-License-Identifier: Apache-2.0
package io.megaphone.transfer

import java.io.{BufferedOutputStream, FileNotFoundException}
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, Path}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.megaphone.format.{FileName, FileSource, MissingFileException}
import io.megaphone.store.{AtomicOutput, StateFiles}

/** The files of one store of one operator in a checkpoint, through Spark's checkpoint file manager:
  * `<state>/<operator>/<worker>[/<store>]/<version>[_<id>].delta`.
  */
final class HadoopStateFiles(operatorFolder: Path, store: String, hadoopConf: Configuration) extends StateFiles {
  private lazy val files = CheckpointFileManager.create(operatorFolder, hadoopConf)
  private lazy val fileSystem = operatorFolder.getFileSystem(hadoopConf)
  private val made = ConcurrentHashMap.newKeySet[Int]()

  def path(file: FileName): Path = {
    val folder = folderOf(file.worker)
    new Path(folder, file.toString.substring(file.toString.indexOf('/') + 1))
  }

  /** The folder of a worker. */
  def folderOf(worker: Int): Path = {
    val folder = new Path(operatorFolder, worker.toString)
    if (store == "default") folder else new Path(folder, store)
  }

  override def create(file: FileName): AtomicOutput = {
    if (made.add(file.worker)) files.mkdirs(folderOf(file.worker))
    val stream = files.createAtomic(path(file), overwriteIfPossible = true)
    val buffered = new BufferedOutputStream(stream, 1 << 16)
    new AtomicOutput {
      override def write(b: Int): Unit = buffered.write(b)
      override def write(b: Array[Byte], offset: Int, length: Int): Unit = buffered.write(b, offset, length)
      override def close(): Unit = { buffered.flush(); stream.close() }
      override def cancel(): Unit = stream.cancel()
    }
  }

  override def open(file: FileName): FileSource = {
    val at = path(file)
    try new HadoopSource(at.toString, files.open(at), fileSystem.getFileStatus(at).getLen)
    catch { case _: FileNotFoundException => throw new MissingFileException(at.toString) }
  }

  /** The files of a worker, by name; those that are not ours are not listed. */
  def list(worker: Int): Vector[FileName] =
    try files.list(folderOf(worker)).iterator.filterNot(_.isDirectory).flatMap(s => FileName.parse(worker, s.getPath.getName)).toVector
    catch { case _: FileNotFoundException => Vector.empty }

  def delete(file: FileName): Unit = files.delete(path(file))

  private final class HadoopSource(val name: String, stream: FSDataInputStream, val length: Long) extends FileSource {
    override def read(position: Long, count: Int): Array[Byte] = {
      val bytes = new Array[Byte](count)
      stream.readFully(position, bytes)
      bytes
    }
    override def close(): Unit = stream.close()
  }
}
