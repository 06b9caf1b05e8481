// SPDX-License-Identifier: Apache-2.0
package io.megaphone.runtime

import org.scalatest.funsuite.AnyFunSuite

import io.megaphone.format.{ExecutorAddress, StoreId, WorkerId}

class RecentCommitsSuite extends AnyFunSuite {
  private def commit(worker: Int, batch: Long, binsIn: Int = 0) = {
    val arrivals = new Arrivals
    arrivals.binsIn = binsIn
    Committed(
      WorkerId(StoreId(0, "default").in("run"), worker),
      batch,
      ExecutorAddress("e", "host", 1),
      keys = 1,
      liveBytes = 1,
      bytes = 1,
      arrivals
    )
  }

  test("the newest commit of each worker is the one that arrived last") {
    val commits = new RecentCommits
    Seq(commit(0, 1), commit(1, 1), commit(0, 2)).foreach(commits.add)
    assert(commits.newest.map { case (w, c) => w.worker -> c.batch } == Map(0 -> 2L, 1 -> 1L))
  }

  test("of a bin's sizes the one of the newest batch counts, whichever commit is reported last") {
    def sizes(keys: Long) =
      Some(
        BinSizes(Array(5), Array(keys), Array(keys * 10), Array(keys * 100), Array(keys * 1000))
      )
    val commits = new RecentCommits
    Seq(commit(1, 8).copy(sizes = sizes(2)), commit(0, 7).copy(sizes = sizes(1)), commit(1, 9))
      .foreach(commits.add)
    val sizeOf = commits.sizes(Seq(StoreId(0, "default"), StoreId(1, "default")))
    assert(sizeOf(5).contains(BinSize(2, 20, 200, 2000)))
    assert(Seq(0, 4, 6, 99).forall(sizeOf(_).isEmpty))
    assert(commits.sizes(Seq(StoreId(1, "default")))(5).isEmpty)
    assert(commits.newest.values.forall(_.sizes.isEmpty), "they are kept once")
  }

  test("of the moves the oldest go beyond the bound, however many ordinary commits follow them") {
    val commits = new RecentCommits(movesMax = 2)
    (1L to 3L).foreach(batch => commits.add(commit(0, batch, binsIn = 1)))
    (4L to 9L).foreach(batch => commits.add(commit(0, batch)))
    assert(commits.moves.map(_.batch) == Vector(2L, 3L))
    assert(commits.movesSince(3).map(_.batch) == Vector(3L))
  }

  test("commits that are kept share the ids of their worker and executor") {
    val commits = new RecentCommits
    (1L to 3L).foreach(batch => commits.add(commit(0, batch, binsIn = 1)))
    val (first, others) = (commits.moves.head, commits.moves.tail :+ commits.newest.values.head)
    assert(others.forall(c => (c.worker eq first.worker) && (c.executor eq first.executor)))
    val moved = commit(0, 4, binsIn = 1).copy(executor = ExecutorAddress("f", "host", 2))
    commits.add(moved)
    assert(commits.moves.last.executor.id == "f")
  }
}
