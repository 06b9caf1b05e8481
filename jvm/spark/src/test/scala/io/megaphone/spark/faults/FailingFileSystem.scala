// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faults

import java.io.IOException

import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.security.AccessControlException
import org.apache.spark.SparkEnv

/** A file system whose operations fail when a test says so: `failing:` paths over local folders,
  * for tests that name this class in `spark.hadoop.fs.failing.impl`. It does not rename over a file
  * that is there.
  *
  * Its fault points are `driver-` or `executor-` and one of `mkdirs`, `create`, `rename`, `list`
  * and `open`, with `=fail`, `=deny` or `=hang`. See [[StrikingFaultPoints]].
  */
final class FailingFileSystem extends AskedFileSystem("failing") {
  override def mkdirs(path: Path): Boolean = mkdirs(path, null)
  override def mkdirs(path: Path, permission: FsPermission): Boolean = {
    asked("mkdirs", path)
    super.mkdirs(path, permission)
  }

  override def rename(from: Path, to: Path): Boolean = {
    asked("rename", to)
    !pathToFile(to).isFile && super.rename(from, to)
  }

  override def listStatus(path: Path): Array[FileStatus] = {
    asked("list", path)
    super.listStatus(path)
  }

  override protected def asked(operation: String, path: Path): Unit = {
    val isDriver = Option(SparkEnv.get).exists(_.executorId == "driver")
    val point = s"${if (isDriver) "driver" else "executor"}-$operation"
    StrikingFaultPoints.strike(point) {
      case "hang" => StrikingFaultPoints.hang(point)
      case "deny" => throw new AccessControlException(s"Permission denied: $operation $path")
      case _ => throw new IOException(s"The connection was lost: $operation $path")
    }
  }
}
