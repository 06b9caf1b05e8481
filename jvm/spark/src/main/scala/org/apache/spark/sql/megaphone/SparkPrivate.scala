// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.nio.file.Path

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.ui.SparkUI
import org.apache.spark.util.Utils

/** One-line calls of members that are private to Spark.
  *
  * Private to Spark (4.2, 4.3): `SparkContext.conf`, `SparkContext.ui`, `SparkUI`,
  * `SparkHadoopUtil`, `DiskBlockManager.localDirs`, `Utils`, `QueryExecutionErrors`.
  */
object SparkPrivate {

  /** The context's own configuration, not a copy. A driver plugin may change it, because no session
    * exists yet.
    */
  def conf(context: SparkContext): SparkConf = context.conf

  /** The live UI of an application; None where it is switched off. */
  def ui(context: SparkContext): Option[SparkUI] = context.ui

  /** Hadoop's configuration with the application's `spark.hadoop.*`, without a session. */
  def hadoopConf(conf: SparkConf): Configuration = SparkHadoopUtil.get.newConfiguration(conf)

  /** Hadoop's configuration of a session, including its SQL configuration. */
  def hadoopConf(session: SparkSession): Configuration = session.sessionState.newHadoopConf()

  /** The local folders of an executor, for files that live no longer than the executor. */
  def localFolders(env: SparkEnv): Seq[Path] =
    env.blockManager.diskBlockManager.localDirs.toSeq.map(_.toPath)

  /** Starts a service at a port, or at one of the next if that is taken, as often as Spark tries
    * for its own. Throws what `start` throws at the last port.
    */
  def startServiceOnPort[A](port: Int, conf: SparkConf, name: String)(start: Int => (A, Int)): A =
    Utils.startServiceOnPort(port, start, conf, name)._1

  // The errors that Spark's own providers throw.
  def unexpectedVersion(version: Long): Throwable =
    QueryExecutionErrors.unexpectedStateStoreVersion(version)
  def stateFileIsMissing(file: String, cause: Throwable): Throwable =
    QueryExecutionErrors.failedToReadStreamingStateFileError(new HadoopPath(file), cause)
  def commitFailed(store: String, cause: Throwable): Throwable =
    QueryExecutionErrors.failedToCommitStateFileError(store, cause)
}
