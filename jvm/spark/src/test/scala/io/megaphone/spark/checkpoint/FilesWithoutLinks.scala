// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.checkpoint

import java.nio.file.{FileSystemException, Path => NioPath}
import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** The plugin's manager of `file:` paths on a file system without hard links. */
final class FilesWithoutLinks(path: Path, hadoopConf: Configuration)
    extends LocalCheckpointFileManager(path, hadoopConf) {

  override protected def hardLink(link: NioPath, file: NioPath): Unit = {
    FilesWithoutLinks.tried.add(link)
    throw new FileSystemException(link.toString, null, "nicht unterstützt")
  }
}

object FilesWithoutLinks {

  /** What was to become the second name of a file. */
  val tried = new ConcurrentLinkedQueue[NioPath]
}
