// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faults

import java.net.URI

import org.apache.hadoop.fs.{FSDataInputStream, FSDataOutputStream, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** Local folders under another scheme, which has no `AbstractFileSystem`, as many stores of objects
  * have none. What it is asked for, `asked` sees first.
  */
abstract class AskedFileSystem(scheme: String) extends RawLocalFileSystem {

  /** An operation is about to be done on a path; it may throw. */
  protected def asked(operation: String, path: Path): Unit

  override def getUri: URI = URI.create(s"$scheme:///")
  override def getScheme: String = scheme

  override def create(
      path: Path,
      overwrite: Boolean,
      bufferBytes: Int,
      replication: Short,
      blockBytes: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    asked("create", path)
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

  override def open(path: Path, bufferBytes: Int): FSDataInputStream = {
    asked("open", path)
    super.open(path, bufferBytes)
  }
}
