// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

import java.nio.file.{Files, Path => NioPath}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.types._

import io.megaphone.checkpoint.Recovery
import io.megaphone.errors.UnsupportedQueryException
import io.megaphone.format.{FileName, Frame, StateName}
import io.megaphone.spark.checkpoint.{HadoopStateFiles, Lz4}
import io.megaphone.spark.metrics.OperatorMetrics
import io.megaphone.spark.query.PluginSession

/** What Spark asks of a store beside its rows: to be released, to be written whole, to be
  * maintained, to tell how far it can be recovered quickly.
  */
class StoreLifeSuite extends PluginSession {
  private val schema = new StructType().add("n", LongType)
  private val toRow = UnsafeProjection.create(schema)
  private def row(n: Long): UnsafeRow = toRow(InternalRow(n)).copy()

  private def withStores(body: TaskStores => Unit): Unit = {
    val stores =
      new TaskStores(spark, classOf[io.megaphone.BinnedStateStoreProvider], schema, schema, Nil)
    try body(stores)
    finally stores.close()
  }

  private def put(store: StateStore, keys: Range): Unit =
    keys.foreach(k => store.put(row(k.toLong), row(k + 1L)))
  private def keys(store: StateStore): Set[Long] = {
    val all = store.iterator();
    try all.map(_.key.getLong(0)).toSet
    finally all.close()
  }

  private def frames(stores: TaskStores, version: Long): Vector[Frame] =
    new Recovery(
      new HadoopStateFiles(
        new Path(s"file:${stores.folder}/state/0"),
        "default",
        new Configuration
      ),
      Lz4.All
    )
      .footer(FileName(0, StateName(version, StateName.FixedId)))
      .frames

  /** The most frames that lie behind the newest image of any bin, after any of some versions that
    * all changed each bin.
    */
  private def longestChain(stores: TaskStores, versions: Range): Int =
    (0 until 8).map { bin =>
      val areImages = versions.map(version =>
        frames(stores, version.toLong).exists(frame => frame.bin == bin && frame.isImage)
      )
      areImages.scanLeft(0)((length, isImage) => if (isImage) 1 else length + 1).max
    }.max

  private def files(folder: NioPath): Map[NioPath, Long] = {
    val all = Files.walk(folder)
    try all.iterator.asScala.filter(Files.isRegularFile(_)).map(f => f -> Files.size(f)).toMap
    finally all.close()
  }

  test("A store that is released gives up what was not committed, and keeps what was.") {
    withStores { stores =>
      val first = stores.open(0)
      put(first, 0 until 20)
      first.commit()
      first.release()
      val second = stores.open(1)
      put(second, 20 until 40)
      second.remove(row(3))
      second.release()
      assert(!second.hasCommitted)
      val third = stores.open(1)
      assert(keys(third) == (0L until 20L).toSet)
      put(third, 40 until 41)
      assert(third.commit() == 2)
      assert(keys(stores.open(2)) == (0L until 20L).toSet + 40L)
    }
  }

  test("A thread that serves Python writes to nobody's state after its task was killed.") {
    withStores { stores =>
      val first = stores.open(0)
      elsewhere(put(first, 0 until 20))
      first.commit()
      val killed = stores.open(1)
      elsewhere(put(killed, 20 until 30))
      val next = stores.open(1) // ends the task before, as a kill does
      val late = intercept[IllegalStateException](elsewhere(put(killed, 30 until 40)))
      assert(late.getMessage.endsWith("has ended."))
      assert(keys(next) == (0L until 20L).toSet)
      assert(bytesRead(next) == 0, "what the thread wrote is undone, at no cost")
      put(next, 40 until 41)
      next.commit()
      assert(keys(stores.open(2)) == (0L until 20L).toSet + 40L)
      stores.restart()
      assert(keys(stores.open(2)) == (0L until 20L).toSet + 40L)
    }
  }

  private def bytesRead(store: StateStore): Long = store.metrics.customMetrics.collectFirst {
    case (metric, value) if metric.name == OperatorMetrics.BytesIn.name => value
  }.get

  /** Runs it on another thread, and throws what it throws. */
  private def elsewhere(body: => Unit): Unit = {
    var thrown = Option.empty[Throwable]
    val thread = new Thread(() =>
      try body
      catch { case e: Throwable => thrown = Some(e) }
    )
    thread.start()
    thread.join()
    thrown.foreach(throw _)
  }

  test(
    "A commit that is to be whole writes an image of each bin, and says so; the next one writes " +
      "its changes alone."
  ) {
    withStores { stores =>
      def commit(version: Long, isForced: Boolean): Map[String, Long] = {
        val store = stores.open(version, isForced)
        put(store, if (version == 0) 0 until 200 else 7 until 8)
        store.commit()
        store.metrics.customMetrics.map { case (metric, value) => metric.name -> value }
      }
      assert(commit(0, isForced = false)("forceSnapshotCount") == 0)
      assert(frames(stores, 1).size == 8 && frames(stores, 1).forall(!_.isImage))
      assert(commit(1, isForced = true)("forceSnapshotCount") == 1)
      assert(
        frames(stores, 2).map(_.bin).toSet == (0 until 8).toSet && frames(stores, 2).forall(
          _.isImage
        )
      )
      assert(commit(2, isForced = false)("forceSnapshotCount") == 0)
      assert(frames(stores, 3).size == 1 && frames(stores, 3).forall(!_.isImage))
      assert(keys(stores.open(3)) == (0L until 200L).toSet)
    }
  }

  for ((setting, longest) <- Seq(Some("4") -> 8, None -> 30))
    test(
      "Bins are written whole as often as the configuration asks for, which is " +
        s"${setting.getOrElse("rarely, by itself")}."
    ) {
      withConf(setting.map("spark.megaphone.recovery.framesMax" -> _).toSeq: _*) {
        withStores { stores =>
          for (version <- 0 until 30) {
            val store = stores.open(version.toLong)
            put(
              store,
              0 until (if (version == 0) 800 else 40)
            ) // few of many, so that no bin is written whole for its bytes
            store.commit()
          }
          val found = longestChain(stores, 1 to 30)
          assert(if (setting.isEmpty) found == longest else found > 1 && found <= longest)
        }
      }
    }

  test(
    "A store without the state before it, as an offline rewrite asks for, is refused with a " +
      "sentence."
  ) {
    withStores { stores =>
      val first = stores.open(0)
      put(first, 0 until 20)
      first.commit()
      val refused = intercept[UnsupportedQueryException](stores.open(1, isEmpty = true))
      assert(
        refused.condition == "UNSUPPORTED_REWRITE" && refused.getMessage.endsWith(
          "rescale the query while it runs."
        )
      )
      assert(keys(stores.open(1)) == (0L until 20L).toSet)
    }
  }

  test(
    "Maintenance writes nothing and deletes nothing: images are written by commits, and files go " +
      "with the driver's sweep."
  ) {
    withStores { stores =>
      for (version <- 0 until 15) {
        val store = stores.open(version.toLong); put(store, version until version + 5);
        store.commit()
      }
      val before = files(stores.folder)
      stores.maintain()
      assert(before.size == 15 && files(stores.folder) == before)
      assert(keys(stores.open(15)) == (0L until 19L).toSet)
    }
  }

  test(
    "The coordinator is told of a version as often as Spark's providers make a snapshot, so that " +
      "it does not warn."
  ) {
    withConf(
      "spark.sql.streaming.stateStore.coordinatorReportSnapshotUploadLag" -> "true",
      "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "4"
    ) {
      withStores { stores =>
        val told = for (version <- 0 until 10) yield {
          val store = stores.open(version.toLong); put(store, 0 until 1); store.commit();
          stores.reported
        }
        assert(told.map(_.get) == Seq(1, 1, 1, 1, 5, 5, 5, 5, 9, 9))
      }
    }
  }
}
