// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import org.apache.spark.SparkContext

import io.megaphone.format.ExecutorAddress

/** The executors of an application.
  *
  * Private to Spark (4.2, 4.3): `SparkContext.env`.
  */
object Cluster {

  /** The executors that are registered now, in the order of their ids. The driver is included only
    * in local mode, where it is the executor. Asks the driver's own block manager endpoint.
    */
  def executors(sc: SparkContext): Vector[ExecutorAddress] = {
    val all = sc.env.blockManager.master.getMemoryStatus.keys.toVector
    val workers = if (sc.isLocal) all else all.filterNot(_.isDriver)
    workers.map(BlockStore.addressOf).sortBy(e => (e.id.length, e.id))
  }
}
