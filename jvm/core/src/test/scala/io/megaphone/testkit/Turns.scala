// SPDX-License-Identifier: Apache-2.0
package io.megaphone.testkit

import scala.collection.mutable
import scala.util.Random

/** Real threads, of which dice let one go on at a time, and some more often than others: from one
  * gate to its next, where it would use a file or a peer. So orders come up that chance would
  * hardly ever show, with locks, waits and interrupts as they are.
  *
  *   1. Each actor waits at its first gate.
  *   1. One of those that wait at gates is let go, as soon as all others do, have ended, or wait
  *      for something else: a lock or a lease.
  *   1. If nobody waits at a gate, those that wait for something else must go on by themselves.
  *
  * Threads: `gate` is for the actors' threads; in any other thread it does nothing.
  */
final class Turns(random: Random, hangsMs: Long = 60000) {
  private val actors = mutable.LinkedHashMap.empty[Thread, Actor]

  /** Adds an actor. What its body throws is thrown by `run`. */
  def actor(name: String)(body: => Unit): Thread = {
    val made = new Actor(name, () => body)
    actors(made.thread) = made
    made.thread
  }

  /** The calling actor is about to use a file or a peer: it waits for its turn. */
  def gate(): Unit = synchronized(actors.get(Thread.currentThread)).foreach(_.waitAtGate())

  /** Runs all actors to their ends. Throws IllegalStateException if one hangs. */
  def run(): Unit = {
    actors.keysIterator.foreach(_.start())
    try
      while (letOneGo()) {}
    finally actors.keysIterator.foreach(_.interrupt())
    actors.values.flatMap(_.failure).headOption.foreach(throw _)
  }

  private def letOneGo(): Boolean = synchronized {
    val deadline = System.nanoTime + hangsMs * 1000000
    while (
      actors.values.exists(!_.isResting) || !actors.values.forall(_.isOver) && atGates.isEmpty
    ) {
      if (System.nanoTime > deadline) throw new IllegalStateException(s"Threads hang: $described")
      wait(1)
    }
    val next = atGates
    if (next.nonEmpty) pick(next).go()
    next.nonEmpty
  }

  private def pick(from: Vector[Actor]): Actor = {
    val weights = from.scanLeft(0.0)(_ + _.weight)
    val at = random.nextDouble() * weights.last
    from(weights.tail.indexWhere(at < _))
  }

  private def atGates: Vector[Actor] = actors.values.filter(_.isAtGate).toVector

  private def described: String = actors.values
    .filterNot(_.isOver)
    .map(a => s"${a.name} at ${a.thread.getStackTrace.take(12).mkString(" < ")}")
    .mkString("\n")

  final private class Actor(val name: String, body: () => Unit) {
    var isAtGate, isOver = false
    var failure = Option.empty[Throwable]
    private var mayGo = false

    /** So in some schedules one actor is far ahead of another. */
    val weight: Double = math.pow(2, -random.nextInt(8).toDouble)

    val thread: Thread = new Thread(
      () =>
        try { waitAtGate(); body() }
        catch { case e: Throwable => failure = Some(e) }
        finally Turns.this.synchronized { isOver = true; Turns.this.notifyAll() },
      name
    )

    def waitAtGate(): Unit = Turns.this.synchronized {
      isAtGate = true
      Turns.this.notifyAll()
      try while (!mayGo) Turns.this.wait()
      finally { isAtGate = false; mayGo = false }
    }

    def go(): Unit = { mayGo = true; isAtGate = false; Turns.this.notifyAll() }

    /** Whether the actor waits at a gate, has ended, or waits for something else. */
    def isResting: Boolean = isOver || isAtGate || !mayGo && Turns.Waiting(thread.getState)
  }
}

object Turns {
  private val Waiting =
    Set(Thread.State.BLOCKED, Thread.State.WAITING, Thread.State.TIMED_WAITING)
}
