// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

import io.megaphone.errors.PlanRefusedException
import io.megaphone.runtime.PlacementSettings

/** The keys that say where workers and standbys are placed, and how executors come and go. */
object PlacementConf {

  /** The most executors that can be asked for. */
  val ExecutorsMax: Int = 10000

  private val ReplicasMax = 8
  private val ToleranceMin = 0.01
  private val ToleranceMax = 1.0

  val Replicas: ConfEntry[Int] = ConfEntry(
    "spark.megaphone.replicas",
    "0",
    "query",
    s"How many other executors stand by for each worker, from 0 to $ReplicasMax: each has all of " +
      "its state in memory, and takes the worker over if its executor is lost. A standby takes " +
      "as much memory as the state itself.",
    replicas
  )
  val Auto: ConfEntry[Boolean] = ConfEntry(
    "spark.megaphone.placement.auto",
    "false",
    "query",
    "Whether workers are spread anew over the executors when executors have come or gone: `true` " +
      "or `false`.",
    text => MegaphoneConf.yesOrNo(text)
  )
  val Tolerance: ConfEntry[Double] = ConfEntry(
    "spark.megaphone.placement.tolerance",
    "0.1",
    "query",
    "How far from its part the load of an executor may be before workers are taken from it or " +
      "brought to it, as a fraction of the part: from 0.01 to 1.",
    text =>
      text.trim.toDoubleOption
        .filter(isTolerance)
        .getOrElse(throw new IllegalArgumentException("a number from 0.01 to 1 is needed."))
  )
  val SettleBatches: ConfEntry[Long] = ConfEntry(
    "spark.megaphone.placement.settleBatches",
    "2",
    "query",
    "Number of batches without a change of executors before workers are spread by themselves.",
    text => MegaphoneConf.atLeast(0)(text)
  )
  val PilotBatches: ConfEntry[Long] = ConfEntry(
    "spark.megaphone.placement.pilotBatches",
    "3",
    "query",
    "Number of batches that an executor without any of the query's state runs its lightest new " +
      "worker before it gets others: the first tasks in a new JVM take long. 0 for none.",
    text => MegaphoneConf.atLeast(0)(text)
  )

  val OnDecommission: ConfEntry[Boolean] = ConfEntry(
    "spark.megaphone.drain.onDecommission",
    "true",
    "application",
    "Whether an executor that Spark decommissions is emptied as by a drain: `true` or `false`. " +
      "Its workers leave with the next batch in any case, for it gets no more tasks.",
    text => MegaphoneConf.yesOrNo(text)
  )
  val HoldState: ConfEntry[Boolean] = ConfEntry(
    "spark.megaphone.allocation.holdState",
    "true",
    "application",
    "Whether dynamic allocation treats an executor with state like one with cached data, which " +
      "it ends after `spark.dynamicAllocation.cachedExecutorIdleTimeout` only: `true` or `false`.",
    text => MegaphoneConf.yesOrNo(text)
  )

  /** In the order of the documentation. */
  private[conf] val all: Vector[ConfEntry[_]] =
    Vector(Replicas, Auto, Tolerance, SettleBatches, PilotBatches, OnDecommission, HoldState)

  /** A tolerance that a caller gave. Throws PlanRefusedException. */
  def checkedTolerance(asked: Double): Double =
    if (isTolerance(asked)) asked else throw PlanRefusedException.invalidTolerance(asked)

  /** Reads all of them. Throws InvalidConfException. */
  def read(conf: String => Option[String]): PlacementSettings = PlacementSettings(
    Replicas.read(conf),
    Auto.read(conf),
    Tolerance.read(conf),
    SettleBatches.read(conf),
    PilotBatches.read(conf),
    MegaphoneConf.PatienceBatches.read(conf)
  )

  private def isTolerance(number: Double) = number >= ToleranceMin && number <= ToleranceMax

  private def replicas(text: String): Int = text.trim.toIntOption
    .filter(n => n >= 0 && n <= ReplicasMax)
    .getOrElse(
      throw new IllegalArgumentException(s"a whole number from 0 to $ReplicasMax is needed.")
    )
}
