// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FSDataInputStream, Path, PathFilter}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.internal.SQLConf

import io.megaphone.checkpoint.AtomicOutput

/** The checkpoint file manager that the plugin sets. A session has one for all of its checkpoints,
  * so it does what suits the file system of each path:
  *   - [[LocalCheckpointFileManager]] serves `file:` paths;
  *   - in an [[ObjectStore]], a file is written with one request. One that must not replace another
  *     is put on that condition, if the store is found to keep it. Two drivers that write the same
  *     bytes are told apart: only one of them has begun the batch;
  *   - in every other way, the manager serves that Spark chooses if none is configured.
  */
final class SchemeCheckpointFileManager(path: Path, hadoopConf: Configuration)
    extends CheckpointFileManager {
  private val isFile = Option(path.toUri.getScheme)
    .getOrElse(path.getFileSystem(hadoopConf).getUri.getScheme) == "file"
  private val files: CheckpointFileManager =
    if (isFile) new LocalCheckpointFileManager(path, hadoopConf)
    else SchemeCheckpointFileManager.sparksChoice(path, hadoopConf)
  private lazy val objects = if (isFile) None else ObjectStore.of(path, hadoopConf)
  @volatile private var answer = Option.empty[Boolean] // whether the store refuses, if tried out

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CancellableFSDataOutputStream = {
    val out =
      if (overwriteIfPossible) objects.map(_.replace(path))
      else objects.filter(refuses(_, path.getParent)).map(_.createNew(path))
    out.fold(files.createAtomic(path, overwriteIfPossible))(new PutStream(_))
  }

  private def refuses(store: ObjectStore, folder: Path): Boolean = answer.getOrElse {
    val found = store.refuses(folder)
    answer = Some(found)
    found
  }

  override def open(path: Path): FSDataInputStream = files.open(path)
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = files.list(path, filter)
  override def mkdirs(path: Path): Unit = files.mkdirs(path)
  override def exists(path: Path): Boolean = files.exists(path)
  override def delete(path: Path): Unit = files.delete(path)
  override def isLocal: Boolean = files.isLocal
  override def createCheckpointDirectory(): Path = files.createCheckpointDirectory()
  override def close(): Unit = files.close()

  /** A file that appears when it is closed, and not at all if it is cancelled. */
  private final class PutStream(out: AtomicOutput) extends CancellableFSDataOutputStream(out) {
    private var isOver = false

    override def close(): Unit = synchronized {
      if (!isOver) { isOver = true; super.close() }
    }

    override def cancel(): Unit = synchronized {
      if (!isOver) { isOver = true; out.cancel() }
    }
  }
}

private object SchemeCheckpointFileManager {

  /** One on `FileContext` or, if a scheme has none, one on `FileSystem`. */
  private def sparksChoice(path: Path, hadoopConf: Configuration): CheckpointFileManager = {
    val unset = new Configuration(hadoopConf)
    unset.unset(SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key)
    CheckpointFileManager.create(path, unset)
  }
}
