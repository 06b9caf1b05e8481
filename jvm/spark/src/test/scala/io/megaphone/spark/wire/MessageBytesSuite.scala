// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.wire

import java.io.{ByteArrayOutputStream, InvalidClassException, IOException, ObjectOutputStream}

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{Checksum, Encoder, ExecutorAddress, StateName, StoreId, WorkerId}
import io.megaphone.plan.StepId
import io.megaphone.runtime.{
  Arrivals, BinSizes, Committed, Copied, FileSettings, FileSettingsAsked, Held, LiveRun, Message,
  Orders, Report, Standing
}
import io.megaphone.state.{Reached, ReplicaKey}
import io.megaphone.testkit.{Allocated, BitFlips}
import io.megaphone.transfer.{ReplicaDuty, StandbyDuty}

/** Messages as bytes. */
class MessageBytesSuite extends AnyFunSuite {
  private val step = StepId("plan", 0, 1)
  private val key = ReplicaKey.forStep(StoreId(0, "default").in("run"), 0, 1, step)
  private val address = ExecutorAddress("1", "host", 7337)

  private val worker = WorkerId(key.store, 1)
  private val image = StateName(3, "")
  private val duty = ReplicaDuty(key, Vector(1, 2), 64, Some(image), image, 7L, Some(address), None)
  private val sizes = BinSizes(Array(1, 9), Array(3, 4), Array(30, 40), Array(0, 400), Array(5, 6))
  private val messages = Seq[Message](
    Report(
      address,
      Held(2, 1, 0),
      Vector(Reached(key, 3, 1)),
      Vector(key -> "no room"),
      Vector(Copied(key, true, 7)),
      Map("run" -> 7L),
      Vector(Standing(worker, 3, isWhole = false))
    ),
    Orders(
      5,
      Map("run" -> LiveRun("root", 3, Set(step), Some(1000))),
      Vector(duty),
      Vector(StandbyDuty(worker, Vector(1, 2), 64, image, 7L, 100L))
    ),
    Committed(WorkerId(key.store, 1), 7, address, 100, 1000, 2000, new Arrivals),
    Committed(WorkerId(key.store, 1), 7, address, 9, 9, 9, new Arrivals, Some(sizes)),
    FileSettingsAsked("run"),
    FileSettings(Some(Array[Byte](1, 2, 3)))
  )

  test("A message that was encoded is decoded to an equal one.") {
    for (message <- messages; bytes = MessageBytes.encode(message)) {
      val decoded = MessageBytes.decode(bytes)
      assert(decoded == message || MessageBytes.encode(decoded).sameElements(bytes))
    }
  }

  test("Any cut and any changed bit of a message is an error that says so.") {
    for (bytes <- messages.map(MessageBytes.encode)) {
      bytes.indices.foreach(length => refused(bytes.take(length)))
      BitFlips.of(bytes).foreach(refused)
      refused(bytes ++ bytes)
    }
    refused(Array.emptyByteArray)
  }

  test("Damage that the checksum does not tell is an error or another message, and nothing else.") {
    val random = new Random(1)
    for (bytes <- messages.map(MessageBytes.encode); _ <- 1 to 3000) {
      val body = bytes.drop(4)
      for (_ <- 0 to random.nextInt(3)) body(random.nextInt(body.length)) = random.nextInt().toByte
      val cut = if (random.nextInt(4) == 0) body.take(random.nextInt(body.length)) else body
      val damaged = new Encoder().int(Checksum.of(cut)).toBytes ++ cut
      val allocated = Allocated.bytesOf {
        try { val _ = MessageBytes.decode(damaged) }
        catch { case _: IOException => () }
      }
      assert(allocated < (1 << 20) + 1000L * damaged.length, s"for ${damaged.length} bytes")
    }
  }

  test("An object that is no message is not made.") {
    assertNotMade(serialized(new java.net.URL("http://localhost")))
  }

  test("An array that is larger than its message is not made.") {
    val array = serialized(new Array[Byte](77))
    val at = array.lastIndexOfSlice(Seq[Byte](0, 0, 0, 77)) // its length
    assertNotMade(array.patch(at, Seq[Byte](0x7f, -1, -1, 0), 4))
  }

  test("Objects that are nested too deep are not made.") {
    assertNotMade(serialized(Iterator.iterate[Any](1)(Some(_)).drop(300).next()))
  }

  private def serialized(any: Any): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    val out = new ObjectOutputStream(bytes)
    out.writeObject(any)
    out.close()
    bytes.toByteArray
  }

  /** The filter says so, before anything is made. */
  private def assertNotMade(body: Array[Byte]): Unit = {
    val why = refused(new Encoder().int(Checksum.of(body)).toBytes ++ body).getCause
    assert(why.isInstanceOf[InvalidClassException] && why.getMessage.contains("REJECTED"))
  }

  private def refused(bytes: Array[Byte]): IOException = {
    val e = intercept[IOException](MessageBytes.decode(bytes))
    assert(e.getMessage.startsWith("A message between driver and executors is damaged"))
    e
  }
}
