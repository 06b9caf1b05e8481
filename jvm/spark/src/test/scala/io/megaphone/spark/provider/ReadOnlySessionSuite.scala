// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import scala.util.Try

import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.execution.streaming.state.StateStoreId

import io.megaphone.errors.MegaphoneError
import io.megaphone.spark.query.PluginSession

/** Who writes to state that no batch has opened is told what is wrong. */
final class ReadOnlySessionSuite extends PluginSession {
  import ReadOnlySessionSuite._

  test("A batch that was planned without the rule is told that the plugin is missing.") {
    val context = spark.sparkContext
    context.setLocalProperty(MicroBatchExecution.BATCH_ID_KEY, "3")
    try {
      val told = context.parallelize(Seq(0), 1).map(_ => refusal()).first()
      assert(told.startsWith("PLUGIN_MISSING: A batch was planned without the plugin's rule"))
    } finally context.setLocalProperty(MicroBatchExecution.BATCH_ID_KEY, null)
  }

  test("A reader is told that it only reads.") {
    val told = spark.sparkContext.parallelize(Seq(0), 1).map(_ => refusal()).first()
    assert(told.contains("was opened by a reader and cannot be written"))
  }
}

private object ReadOnlySessionSuite {
  def refusal(): String = {
    val session = new ReadOnlySession(StateStoreId("file:/state", 0, 0))
    Try(session.checkWritable()).failed.get match {
      case named: MegaphoneError => s"${named.condition}: ${named.getMessage}"
      case other => other.getMessage
    }
  }
}
