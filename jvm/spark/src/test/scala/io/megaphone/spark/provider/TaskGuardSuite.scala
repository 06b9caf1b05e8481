// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider

import java.util.concurrent.{CountDownLatch, Executors, TimeUnit}

import scala.util.Try

import org.scalatest.funsuite.AnyFunSuite

/** The task's thread, and a thread that serves Python. */
final class TaskGuardSuite extends AnyFunSuite {

  test("The end waits for an operation of another thread, which later ones are not begun by.") {
    val guard = new TaskGuard(Some(Thread.currentThread))
    val other = Executors.newSingleThreadExecutor()
    try {
      val (isIn, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
      val call = other.submit { () =>
        assert(!guard.taskThread.contains(Thread.currentThread))
        guard.run(() => { isIn.countDown(); goOn.await(); "done" })
      }
      isIn.await()
      assert(guard.taskThread.contains(Thread.currentThread))
      assert(!guard.alone(waitMs = 1)(fail("the other thread is at work")))
      guard.end()
      goOn.countDown()
      assert(call.get(60, TimeUnit.SECONDS) == "done")
      var isAlone = false
      assert(guard.alone(waitMs = 60000) { isAlone = true } && isAlone)
      val late = other.submit(() => intercept[IllegalStateException](guard.run(() => "late")))
      assert(late.get(60, TimeUnit.SECONDS).getMessage.endsWith("has ended."))
    } finally other.shutdown()
  }

  test("The stores of a task together wait no longer at its end than one of them.") {
    val guard = new TaskGuard(Some(Thread.currentThread))
    val (isIn, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    val other = Executors.newSingleThreadExecutor()
    try {
      val work: Runnable = () => guard.run(() => { isIn.countDown(); goOn.await() })
      other.submit(work)
      isIn.await()
      guard.end()
      val begun = System.nanoTime
      for (_ <- 1 to 4) assert(!guard.alone(waitMs = 500)(fail("the other thread is at work")))
      guard.end()
      assert(System.nanoTime - begun < TimeUnit.MILLISECONDS.toNanos(1500))
    } finally { goOn.countDown(); other.shutdown() }
  }

  test("A task that was interrupted ends as others do, and stays interrupted.") {
    val guard = new TaskGuard(Some(Thread.currentThread))
    var isRun = false
    Thread.currentThread.interrupt()
    try
      assert(guard.alone(waitMs = 1) {
        isRun = !Thread.currentThread.isInterrupted // what is interruptible would fail in it
      })
    finally assert(Thread.interrupted())
    assert(isRun)
  }

  test("An interrupt does not end the wait for an operation of another thread.") {
    val guard = new TaskGuard(Some(Thread.currentThread))
    val other = Executors.newSingleThreadExecutor()
    try {
      val (isIn, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
      val work: Runnable = () => guard.run(() => { isIn.countDown(); goOn.await() })
      val call = other.submit(work)
      isIn.await()
      Thread.currentThread.interrupt()
      assert(!guard.alone(waitMs = 1)(fail("the other thread is at work")))
      assert(Thread.currentThread.isInterrupted)
      goOn.countDown()
      var isAlone = false
      assert(guard.alone(waitMs = 60000) { isAlone = true } && isAlone)
      assert(Thread.interrupted())
      call.get(60, TimeUnit.SECONDS)
    } finally other.shutdown()
  }

  test("An interrupt that comes during the wait does not end it.") {
    val guard = new TaskGuard(Some(Thread.currentThread))
    val other = Executors.newCachedThreadPool()
    val (isIn, goOn) = (new CountDownLatch(1), new CountDownLatch(1))
    try {
      val work: Runnable = () => guard.run(() => { isIn.countDown(); goOn.await() })
      other.submit(work)
      isIn.await()
      val task = Thread.currentThread
      val interrupts: Runnable = () => {
        while (task.getState != Thread.State.TIMED_WAITING) Thread.onSpinWait()
        task.interrupt()
        goOn.countDown()
      }
      other.submit(interrupts)
      var isAlone = false
      val outcome = Try(guard.alone(waitMs = 60000) { isAlone = true })
      assert(Thread.interrupted())
      assert(outcome.toOption.contains(true) && isAlone, outcome)
    } finally { goOn.countDown(); other.shutdown() }
  }
}
