// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faults

import java.io.IOException
import java.net.URI

import org.apache.hadoop.fs.{
  FileStatus, FSDataInputStream, FSDataOutputStream, Path, RawLocalFileSystem
}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable
import org.apache.spark.SparkEnv

/** A file system whose operations fail when a test says so: `failing:` paths over local folders,
  * for tests that name this class in `spark.hadoop.fs.failing.impl`. As many stores of objects it
  * has no `AbstractFileSystem`, and it does not rename over a file that is there.
  *
  * Its fault points are `driver-` or `executor-` and one of `mkdirs`, `create`, `rename`, `list`
  * and `open`, with `=fail`. See [[StrikingFaultPoints]].
  */
final class FailingFileSystem extends RawLocalFileSystem {
  import FailingFileSystem._

  override def getUri: URI = URI.create("failing:///")
  override def getScheme: String = "failing"

  override def mkdirs(path: Path): Boolean = mkdirs(path, null)
  override def mkdirs(path: Path, permission: FsPermission): Boolean = {
    mayFail("mkdirs", path)
    super.mkdirs(path, permission)
  }

  override def create(
      path: Path,
      overwrite: Boolean,
      bufferBytes: Int,
      replication: Short,
      blockBytes: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    mayFail("create", path)
    super.create(path, overwrite, bufferBytes, replication, blockBytes, progress)
  }

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferBytes: Int,
      replication: Short,
      blockBytes: Long,
      progress: Progressable
  ): FSDataOutputStream = create(path, overwrite, bufferBytes, replication, blockBytes, progress)

  override def rename(from: Path, to: Path): Boolean = {
    mayFail("rename", to)
    !pathToFile(to).isFile && super.rename(from, to)
  }

  override def listStatus(path: Path): Array[FileStatus] = {
    mayFail("list", path)
    super.listStatus(path)
  }

  override def open(path: Path, bufferBytes: Int): FSDataInputStream = {
    mayFail("open", path)
    super.open(path, bufferBytes)
  }
}

private object FailingFileSystem {
  private def mayFail(operation: String, path: Path): Unit = {
    val isDriver = Option(SparkEnv.get).exists(_.executorId == "driver")
    val point = s"${if (isDriver) "driver" else "executor"}-$operation"
    StrikingFaultPoints.strike(point) { _ =>
      throw new IOException(s"The connection was lost: $operation $path")
    }
  }
}
