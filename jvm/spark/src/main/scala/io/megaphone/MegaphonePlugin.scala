// SPDX-License-Identifier: Apache-2.0
package io.megaphone

import java.util.{Collections, Map => JMap}

import org.apache.spark.{SparkConf, SparkContext, SparkEnv, TaskContext, TaskFailedReason}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.sql.megaphone.SparkPrivate
import org.apache.spark.sql.megaphone.ui.MegaphoneUi

import io.megaphone.errors.OtherSparkException
import io.megaphone.spark.checkpoint.SchemeCheckpointFileManager
import io.megaphone.spark.conf.MegaphoneConf
import io.megaphone.spark.driver.{ApplicationDriver, BuiltFor, Queries, QueryDriver, QueryListener}
import io.megaphone.spark.executor.{ExecutorHost, TaskThreads}
import io.megaphone.spark.faces.events.Journal
import io.megaphone.spark.faces.metrics.DriverMetrics
import io.megaphone.spark.faces.sql.MegaphoneCatalog
import io.megaphone.spark.metrics.OperatorMetrics

/** The plugin: `spark.plugins=io.megaphone.MegaphonePlugin`.
  *
  * On the driver it adds the session extensions, a query listener and the metrics of Spark's
  * Structured Streaming page to the configured ones. It sets the state store provider, the
  * checkpoint file manager and the SQL catalog if the user set none. It does so before any session
  * exists. On each executor it keeps the state and moves it.
  */
final class MegaphonePlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new MegaphoneDriver
  override def executorPlugin(): ExecutorPlugin = new MegaphoneExecutor
}

private final class MegaphoneDriver extends DriverPlugin {
  private var driver: Option[ApplicationDriver] = None
  private var journal: Option[Journal] = None

  override def init(sc: SparkContext, context: PluginContext): JMap[String, String] = {
    MegaphonePlugin.checkSpark(BuiltFor.SparkMinor, sc.version)
    MegaphonePlugin.configure(SparkPrivate.conf(sc))
    val application = new ApplicationDriver(sc)
    driver = Some(application)
    ApplicationDriver.activate(application)
    sc.addSparkListener(application.membership.listener)
    val conf = SparkPrivate.conf(sc)
    if (MegaphoneConf.UiEnabled.read(conf.getOption)) {
      val interval = MegaphoneConf.UiStateIntervalMs.read(conf.getOption)
      val made = new Journal(application, MegaphoneUi.post(sc), interval)
      journal = Some(made)
      application.observe(made)
      MegaphoneUi.install(sc, (run, plan) => Queries.of(run).cancel(plan))
    }
    Collections.emptyMap()
  }

  override def registerMetrics(appId: String, context: PluginContext): Unit =
    driver.foreach(DriverMetrics.install(_, context.metricRegistry))

  override def receive(message: AnyRef): AnyRef = (message, driver) match {
    case (bytes: Array[Byte], Some(d)) => d.receive(bytes)
    case _ => null
  }
  override def shutdown(): Unit = {
    journal.foreach(_.stop())
    ApplicationDriver.deactivate()
  }
}

private final class MegaphoneExecutor extends ExecutorPlugin {
  override def init(context: PluginContext, extra: JMap[String, String]): Unit =
    ExecutorHost.activate(new ExecutorHost(context, SparkEnv.get))

  override def onTaskStart(): Unit = {
    val task = TaskContext.get()
    TaskThreads.begin(task)
    val counter = task.getLocalProperty(QueryDriver.HintProperty)
    ExecutorHost.active.foreach { host =>
      host.agent.throttle.taskBegins()
      if (counter != null) host.notice(counter.toLong)
    }
  }

  override def onTaskSucceeded(): Unit = taskEnded()
  override def onTaskFailed(reason: TaskFailedReason): Unit = taskEnded()
  private def taskEnded(): Unit = ExecutorHost.active.foreach(_.agent.throttle.taskEnds())

  override def shutdown(): Unit = ExecutorHost.deactivate()
}

object MegaphonePlugin {
  private val Extensions = "spark.sql.extensions"
  private val Listeners = "spark.sql.streaming.streamingQueryListeners"
  private val ShownMetrics = "spark.sql.streaming.ui.enabledCustomMetricList"
  private val Provider = "spark.sql.streaming.stateStore.providerClass"

  /** Sets the keys that the plugin needs. Values set by the user stay; lists are extended. */
  private[megaphone] def configure(conf: SparkConf): Unit = {
    append(conf, Extensions, classOf[MegaphoneExtensions].getName)
    append(conf, Listeners, classOf[QueryListener].getName)
    OperatorMetrics.all.foreach(metric => append(conf, ShownMetrics, metric.name))
    MegaphoneConf.SqlCatalog.read(conf.getOption).foreach { name =>
      conf.setIfMissing(s"spark.sql.catalog.$name", classOf[MegaphoneCatalog].getName)
    }
    conf.setIfMissing(Provider, classOf[BinnedStateStoreProvider].getName)
    conf.setIfMissing(ExecutorHost.FileManagerKey, classOf[SchemeCheckpointFileManager].getName)
    ()
  }

  /** Refuses a jar that was built for another minor version of Spark: Spark's internal classes
    * differ, and the first batch would fail with an error that names one of them. Throws
    * OtherSparkException.
    */
  private[megaphone] def checkSpark(builtFor: String, running: String): Unit =
    if (running != builtFor && !running.startsWith(s"$builtFor."))
      throw new OtherSparkException(builtFor, running)

  private def append(conf: SparkConf, key: String, name: String): Unit = {
    val names = conf.getOption(key).toSeq.flatMap(_.split(',')).map(_.trim).filter(_.nonEmpty)
    if (!names.contains(name)) conf.set(key, (names :+ name).mkString(","))
    ()
  }
}
