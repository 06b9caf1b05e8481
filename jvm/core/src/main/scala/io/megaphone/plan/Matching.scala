// SPDX-License-Identifier: Apache-2.0
package io.megaphone.plan

/** Maximum matching in a bipartite graph (Hopcroft and Karp, SIAM J. Comput. 2(4), 1973).
  *
  *   1. Start from any matching; an augmenting path leads from an unmatched left vertex over an
  *      unmatched edge, back over a matched one, and so on, to an unmatched right vertex. Flipping
  *      its edges makes the matching one larger.
  *   1. In each phase, a breadth-first search gives every left vertex its distance from the
  *      unmatched ones; then depth-first searches along growing distances flip disjoint augmenting
  *      paths.
  *   1. When no path is left the matching is maximum. That takes O(sqrt(vertices)) phases, each
  *      linear in the edges.
  *
  * A vertex, once matched, stays matched; so the first matching says which vertices matter most.
  *
  * @param edges
  *   the right vertices next to each left vertex
  * @param first
  *   the matching to start from: the right vertex of each left one, or [[Matching.Unmatched]]
  */
private[plan] final class Matching(edges: Array[Array[Int]], rights: Int, first: Array[Int]) {
  import Matching.Unmatched

  private val rightOf = first.clone()
  private val leftOf = Array.fill(rights)(Unmatched)
  for (left <- rightOf.indices if rightOf(left) != Unmatched) leftOf(rightOf(left)) = left

  private val distance = new Array[Int](edges.length)
  private val path = new Array[Int](edges.length)
  private val nextEdge = new Array[Int](edges.length)

  /** The right vertex matched to each left one, or [[Matching.Unmatched]]. */
  def maximum(): Array[Int] = {
    while (measureDistances()) {
      java.util.Arrays.fill(nextEdge, 0)
      for (left <- edges.indices if rightOf(left) == Unmatched) augmentFrom(left)
    }
    rightOf
  }

  /** Breadth first; true if an unmatched right vertex can be reached. */
  private def measureDistances(): Boolean = {
    java.util.Arrays.fill(distance, -1)
    val queue = path // as long as needed, and free between searches
    var queued = 0
    for (left <- edges.indices if rightOf(left) == Unmatched) {
      distance(left) = 0
      queue(queued) = left
      queued += 1
    }
    var reached = false
    var head = 0
    while (head < queued) {
      val left = queue(head)
      head += 1
      edges(left).foreach { right =>
        val owner = leftOf(right)
        if (owner == Unmatched) reached = true
        else if (distance(owner) < 0) {
          distance(owner) = distance(left) + 1
          queue(queued) = owner
          queued += 1
        }
      }
    }
    reached
  }

  /** Depth first without recursion, since a path can be as long as there are workers. */
  private def augmentFrom(root: Int): Unit = {
    path(0) = root
    var depth = 0
    while (depth >= 0) {
      val left = path(depth)
      if (nextEdge(left) == edges(left).length) depth -= 1
      else {
        val owner = leftOf(edges(left)(nextEdge(left)))
        nextEdge(left) += 1
        if (owner == Unmatched) {
          flip(depth)
          depth = -1
        } else if (distance(owner) == distance(left) + 1) {
          depth += 1
          path(depth) = owner
        }
      }
    }
  }

  /** Gives each left vertex of the path the right vertex that it tried last. */
  private def flip(lastDepth: Int): Unit =
    for (depth <- 0 to lastDepth) {
      val left = path(depth)
      rightOf(left) = edges(left)(nextEdge(left) - 1)
      leftOf(rightOf(left)) = left
    }
}

private[plan] object Matching {
  val Unmatched: Int = -1
}
