// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.SparkContext

import io.megaphone.format.ExecutorAddress

/** The executors of an application. `SparkContext.env` and the block manager's master are private
  * to Spark (4.2, 4.3).
  */
object Cluster {

  /** Those that are registered now, by id; the driver itself only where it is the one executor, in
    * local mode. Asks the driver's own endpoint.
    */
  def executors(sc: SparkContext): Vector[ExecutorAddress] = {
    val all = sc.env.blockManager.master.getMemoryStatus.keys.toVector
    val workers = if (sc.isLocal) all else all.filterNot(_.isDriver)
    workers.map(BlockStore.addressOf).sortBy(e => (e.id.length, e.id))
  }
}
