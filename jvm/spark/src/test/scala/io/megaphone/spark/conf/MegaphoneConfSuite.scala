// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.conf

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.errors.InvalidConfException
import io.megaphone.runtime.PlacementSettings

/** The configuration keys: their defaults, and what is refused. */
class MegaphoneConfSuite extends AnyFunSuite {

  test("Each key has its own name and a default that can be read.") {
    assert(MegaphoneConf.all.map(_.key).distinct.size == MegaphoneConf.all.size)
    MegaphoneConf.all.foreach { entry =>
      assert(entry.key.startsWith("spark.megaphone."))
      entry.read(_ => None)
    }
  }

  test("A value that is set takes precedence over the default.") {
    assert(MegaphoneConf.Bins.read(_ => None) == 1024)
    assert(MegaphoneConf.Bins.read(Map("spark.megaphone.bins" -> " 64 ").get) == 64)
  }

  test("Each key of placement sets what it is named for.") {
    val set = Map(
      "spark.megaphone.replicas" -> "2",
      "spark.megaphone.placement.auto" -> "true",
      "spark.megaphone.placement.tolerance" -> "0.25",
      "spark.megaphone.placement.settleBatches" -> "5",
      "spark.megaphone.placement.pilotBatches" -> "7",
      "spark.megaphone.transfer.patienceBatches" -> "9"
    )
    val named = PlacementSettings(
      replicas = 2,
      isAuto = true,
      tolerance = 0.25,
      settleBatches = 5,
      pilotBatches = 7,
      patienceBatches = 9
    )
    assert(PlacementConf.read(set.get) == named)
    assert(PlacementConf.read(_ => None) == PlacementSettings())
  }

  test("An invalid value is an error that names the key, the value and what is allowed.") {
    val invalid = Seq(
      MegaphoneConf.Bins -> "63",
      MegaphoneConf.Bins -> "many",
      MegaphoneConf.Mode -> "later",
      MegaphoneConf.DefaultStrategy -> "batched(0)",
      MegaphoneConf.PatienceBatches -> "0",
      MegaphoneConf.ImageDeadlineMs -> "1s",
      MegaphoneConf.TransferPort -> "80",
      MegaphoneConf.TransferPort -> "65536",
      MegaphoneConf.FramesMax -> "1",
      MegaphoneConf.MemoryBudget -> "0%",
      MegaphoneConf.MemoryBudget -> "91%",
      MegaphoneConf.MemoryBudget -> "-1g",
      MegaphoneConf.MemoryBudget -> "much"
    )
    invalid.foreach { case (entry, value) =>
      val error = intercept[InvalidConfException](entry.read(_ => Some(value)))
      assert(error.condition == "INVALID_CONFIGURATION")
      assert(error.getMessage.startsWith(s"${entry.key} is set to '$value', which is invalid: "))
    }
  }

  test("A key that looks like the plugin's and is not is told, with those that exist.") {
    val keys = MegaphoneConf.all.map(_.key) ++ Seq("spark.sql.x", "spark.megaphone.bin")
    val told = MegaphoneConf.warningAbout(keys)
    assert(
      told.exists(_.startsWith("spark.megaphone.bin: no such configuration key, so the value"))
    )
    assert(told.exists(text => MegaphoneConf.all.forall(entry => text.contains(entry.key))))
    assert(MegaphoneConf.warningAbout(MegaphoneConf.all.map(_.key)).isEmpty)
  }

  test("A memory budget is a share of the heap or a size.") {
    assert(MemoryBudget.parse("40%").bytesOf(1000) == 400)
    assert(MemoryBudget.parse(" 90 % ").bytesOf(1000) == 900)
    assert(MemoryBudget.parse("512m").bytesOf(1000) == 512L << 20)
    assert(MemoryBudget.parse("8g").bytesOf(1000) == 8L << 30)
  }
}
