// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.SparkContext

/** An executor that may run workers.
  *
  * @param address
  *   of its block manager, as [[BlockPeers]] takes it
  */
final case class ExecutorAddress(id: String, host: String, address: String)

/** The executors of an application. */
object Cluster {

  /** Those that are registered now, by id; the driver itself only where it is the one executor, in local mode. Asks the driver's own endpoint. */
  def executors(sc: SparkContext): Vector[ExecutorAddress] = {
    val all = sc.env.blockManager.master.getMemoryStatus.keys.toVector
    val workers = if (sc.isLocal) all else all.filterNot(_.isDriver)
    workers.map(id => ExecutorAddress(id.executorId, id.host, BlockPeers.address(id))).sortBy(e => (e.id.length, e.id))
  }
}
