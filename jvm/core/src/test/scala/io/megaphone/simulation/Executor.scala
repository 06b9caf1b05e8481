// SPDX-License-Identifier: Apache-2.0
package io.megaphone.simulation

import scala.collection.mutable

import io.megaphone.checkpoint.Committer
import io.megaphone.format.{Compression, Compressions}
import io.megaphone.format.ExecutorAddress
import io.megaphone.plan.StepId
import io.megaphone.protocol.Protocol
import io.megaphone.runtime.Opener
import io.megaphone.state.{Holding, Registry}
import io.megaphone.transfer.{BlockName, Peers, Preparer, ReplicaDuty, TransferBlocks}

/** One executor: the real registry, openers, committers and preparers, and the blocks that others
  * may pull.
  *
  * What the driver tells it comes as numbered messages, with each task and on their own; an older
  * one than the last is ignored (H20).
  */
final class Executor(val name: String, world: World) extends Peers {
  val address: ExecutorAddress = ExecutorAddress(name, name, 0)
  val registry = new Registry(behindMax = world.setup.behindMax)
  private val handOver = new TransferBlocks(Executor.Compressed)
  private val openers =
    world.setup.stores.map(s => s -> new Opener(registry, world.recovery(s), handOver, this)).toMap
  private val committers = world.setup.stores
    .map(s => s -> new Committer(world.checkpoint.files(s), Compression.None, world.setup.limits))
    .toMap
  private val preparers = world.setup.stores
    .map(s => s -> new Preparer(registry, world.recovery(s), handOver, this, deadlineMs = 0))
    .toMap
  private val blocks = mutable.LinkedHashMap.empty[BlockName, Array[Byte]]
  private val imagesToWrite = mutable.ArrayBuffer.empty[(BlockName, TransferBlocks.Snapshot)]
  private var duties = Vector.empty[ReplicaDuty]
  private var lastMessage = 0L
  var isAlive = true

  def opener(store: StoreId): Opener = openers(store)
  def committer(store: StoreId): Committer = committers(store)
  def hasBlocks: Boolean = blocks.nonEmpty

  /** Publishes an image later, from a background thread: the snapshot must stay what it is
    * meanwhile.
    */
  def publishImage(block: BlockName, snapshot: TransferBlocks.Snapshot): Unit =
    imagesToWrite += (block -> snapshot)
  def publishImageNow(block: BlockName, snapshot: TransferBlocks.Snapshot): Unit = blocks(block) =
    handOver.image(snapshot)
  def publishTail(block: BlockName, holding: Holding, bins: Seq[Int]): Unit = blocks(block) =
    handOver.tail(holding, bins)
  def dropBlocks(isDropped: BlockName => Boolean): Unit = {
    blocks.filterInPlace((b, _) => !isDropped(b)); ()
  }

  def pull(block: BlockName, address: ExecutorAddress, deadlineMs: Long): Option[Array[Byte]] =
    if (world.faults.strikes(Fault.BlockMissing)) None
    else {
      val found = world.executor(address.id).flatMap(_.blockFor(block))
      found
        .filter(_.length > 0 && world.faults.strikes(Fault.BlockDamaged))
        .map(damaged)
        .orElse(found)
        .orElse(world.planted.missingBlock(block))
    }

  private def blockFor(block: BlockName): Option[Array[Byte]] =
    world.planted.otherBlock(block, blocks).orElse(blocks.get(block))

  private def damaged(bytes: Array[Byte]): Array[Byte] =
    if (world.dice.chance(0.3)) bytes.take(world.dice.below(bytes.length))
    else {
      val b = bytes.clone(); val at = world.dice.below(b.length);
      b(at) = (b(at) ^ (1 << world.dice.below(8))).toByte; b
    }

  /** Obeys a message of the driver. */
  def hear(message: Message): Unit =
    if (message.number > lastMessage || world.planted.is(Bug.OldMessageObeyed)) {
      lastMessage = message.number
      val lost = registry.runs.filter(run => world.isLive(run) && !message.runs.contains(run))
      if (lost.nonEmpty) throw new Violation(s"executor $name drops the memory of live runs $lost")
      registry.keepRuns(message.runs.get)
      registry.keepCopies(k => message.steps(k.store.run -> k.step))
      dropBlocks(b => !message.steps(b.key.run -> b.step))
      imagesToWrite.filterInPlace { case (b, _) => message.steps(b.key.run -> b.step) }
      duties = message.duties.collect { case (executor, duty) if executor == name => duty }
    }

  /** One piece of work of the background threads; gives what the driver of a run should hear of it. */
  def work(): Option[(String, Protocol.Event)] =
    if (imagesToWrite.nonEmpty && world.dice.chance(0.6)) {
      val (block, snapshot) = imagesToWrite.remove(world.dice.below(imagesToWrite.size))
      publishImageNow(block, snapshot)
      None
    } else if (duties.nonEmpty) {
      val duty = world.dice.pick(duties)
      if (world.faults.strikes(Fault.CopyHasNoRoom)) {
        registry.dropCopy(duty.key)
        Some(duty.key.store.run -> Protocol.ReplicaRefused(duty.key, "no room", name))
      } else {
        world.planted.beforeDuty(this, duty)
        val version = preparers(StoreId(duty.key.store.operator, duty.key.store.store))(duty)
        world.trace(s"$name prepares ${duty.key} to ${duty.settled}: $version")
        version.map(v => duty.key.store.run -> Protocol.ReplicaReady(duty.key, v, name))
      }
    } else None
}

/** What the driver tells the executors: the complete lists of live runs with their settled
  * versions, of steps whose copies and blocks are wanted, and of duties (P5).
  */
final case class Message(
    number: Long,
    runs: Map[String, Long],
    steps: Set[(String, String)],
    duties: Vector[(String, ReplicaDuty)]
)

object Executor {
  private val Compressed = Compressions(Compression.None)
  def stepName(id: StepId): String = id.toString
}
