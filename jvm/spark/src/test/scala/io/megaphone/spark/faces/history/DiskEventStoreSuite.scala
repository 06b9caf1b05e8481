// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.history

import java.nio.file.{Files, Path}

import scala.collection.mutable

import com.fasterxml.jackson.module.scala.DefaultScalaModule
import org.apache.commons.io.FileUtils
import org.apache.spark.util.kvstore.{KVStore, KVStoreSerializer, RocksDB}
import org.scalatest.BeforeAndAfterAll

/** The same on disk, as a history server may keep it. */
class DiskEventStoreSuite extends EventStoreSuite with BeforeAndAfterAll {
  private val opened = mutable.Buffer.empty[(Path, RocksDB)]

  /** As Spark's own, which is private. */
  private final class ScalaSerializer extends KVStoreSerializer {
    mapper.registerModule(DefaultScalaModule)
  }

  override protected def newStore(): KVStore = {
    val folder = Files.createTempDirectory("megaphone-events")
    val store = new RocksDB(folder.toFile, new ScalaSerializer)
    opened += folder -> store
    store
  }

  override protected def afterAll(): Unit = {
    opened.foreach { case (folder, store) =>
      store.close()
      FileUtils.deleteDirectory(folder.toFile)
    }
    super.afterAll()
  }
}
