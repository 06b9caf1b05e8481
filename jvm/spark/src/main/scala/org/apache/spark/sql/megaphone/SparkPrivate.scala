// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.nio.file.Path

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.apache.spark.{SparkConf, SparkContext, SparkEnv}
import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.errors.QueryExecutionErrors

/** Small things of Spark's that are private to it, since 4.2. */
object SparkPrivate {

  /** The context's own configuration: a driver plugin may still change it, for no session exists
    * yet.
    */
  def conf(context: SparkContext): SparkConf = context.conf

  /** Hadoop's configuration with an application's `spark.hadoop.*`, where there is no session. */
  def hadoopConf(conf: SparkConf): Configuration = SparkHadoopUtil.get.newConfiguration(conf)

  /** Hadoop's configuration of a session, its SQL configuration included. */
  def hadoopConf(session: SparkSession): Configuration = session.sessionState.newHadoopConf()

  /** The folders of an executor for what lives no longer than it does. */
  def localFolders(env: SparkEnv): Seq[Path] =
    env.blockManager.diskBlockManager.localDirs.toSeq.map(_.toPath)

  /** The errors that Spark's own providers give. */
  def unexpectedVersion(version: Long): Throwable =
    QueryExecutionErrors.unexpectedStateStoreVersion(version)
  def stateFileIsMissing(file: String, cause: Throwable): Throwable =
    QueryExecutionErrors.failedToReadStreamingStateFileError(new HadoopPath(file), cause)
  def commitFailed(store: String, cause: Throwable): Throwable =
    QueryExecutionErrors.failedToCommitStateFileError(store, cause)
}
