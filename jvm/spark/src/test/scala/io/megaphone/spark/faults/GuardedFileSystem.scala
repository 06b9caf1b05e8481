// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faults

import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.security.AccessControlException

/** A file system that asks for a credential: `guarded:` paths over local folders, for tests that
  * name this class in `spark.hadoop.fs.guarded.impl`. Each configuration without
  * `fs.guarded.secret` is refused. With `fs.guarded.impl.disable.cache` Hadoop keeps none that
  * another configuration has opened.
  */
final class GuardedFileSystem extends AskedFileSystem("guarded") {
  override def initialize(uri: URI, conf: Configuration): Unit = {
    if (conf.get("fs.guarded.secret") == null)
      throw new AccessControlException("The secret is missing.")
    super.initialize(uri, conf)
  }

  override protected def asked(operation: String, path: Path): Unit = ()
}
