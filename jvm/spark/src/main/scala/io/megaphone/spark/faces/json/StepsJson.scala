// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.json

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.core.StreamReadFeature
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode}
import com.fasterxml.jackson.databind.json.JsonMapper

import io.megaphone.errors.PlanRefusedException
import io.megaphone.plan.Move
import io.megaphone.spark.driver.StepByHand

/** Moves as JSON, bin to worker: `{"17": 3}`. Steps made by hand, as JSON: `[{"moves": {"17": 3},
  * "workers": 8}, ...]`. A step without `workers` keeps their number, and one without `moves` moves
  * nothing.
  */
private[faces] object StepsJson {
  private val Fields = Set("moves", "workers")
  private val mapper = JsonMapper
    .builder()
    .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
    .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
    .build()

  /** Steps. Throws PlanRefusedException if `text` is anything else. */
  def read(text: String): Vector[StepByHand] =
    parsed("steps", text, """[{"moves": {"17": 3}, "workers": 8}]""") { steps =>
      if (!steps.isArray) throw new IllegalArgumentException("A list of steps is needed.")
      steps.asScala.map(stepOf).toVector
    }

  /** Moves alone. Throws PlanRefusedException if `text` is anything else. */
  def moves(text: String): Vector[Move] = parsed("moves", text, """{"17": 3}""")(movesOf)

  /** Workers and the executors for them: `{"0": "2"}`. Throws PlanRefusedException if `text` is
    * anything else.
    */
  def places(text: String): Vector[(Int, String)] = parsed("workers", text, """{"0": "2"}""") {
    places =>
      if (!places.isObject) throw new IllegalArgumentException(s"Workers are needed, not $places.")
      places.properties.asScala.map { place =>
        if (!place.getValue.isTextual)
          throw new IllegalArgumentException(s"An executor's id is needed, not ${place.getValue}.")
        numberOf(place.getKey, "A worker") -> place.getValue.textValue
      }.toVector
  }

  /** Whole numbers: `[3, 4]`. Throws PlanRefusedException if `text` is anything else. */
  def numbers(text: String): Vector[Long] = parsed("ids", text, "[3, 4]") { ids =>
    if (!ids.isArray) throw new IllegalArgumentException("A list of numbers is needed.")
    ids.asScala.map(id => whole(id).toLong).toVector
  }

  private def parsed[A](name: String, text: String, like: String)(read: JsonNode => A): A =
    try read(mapper.readTree(text))
    catch {
      case NonFatal(e) =>
        throw PlanRefusedException.invalidArgument(name, s"is not JSON like $like: ${firstLine(e)}")
    }

  private def stepOf(step: JsonNode): StepByHand = {
    if (!step.isObject) throw new IllegalArgumentException(s"A step is needed, not $step.")
    step.fieldNames.asScala.find(!Fields(_)).foreach { name =>
      throw new IllegalArgumentException(s"A step has no $name, only moves and workers.")
    }
    StepByHand(
      Option(step.get("moves")).filterNot(_.isNull).fold(Vector.empty[Move])(movesOf),
      Option(step.get("workers")).filterNot(_.isNull).map(whole)
    )
  }

  private def movesOf(moves: JsonNode): Vector[Move] = {
    if (!moves.isObject) throw new IllegalArgumentException(s"Moves are needed, not $moves.")
    moves.properties.asScala.map { move =>
      Move(numberOf(move.getKey, "A bin"), whole(move.getValue))
    }.toVector
  }

  private def numberOf(text: String, what: String): Int = text.toIntOption.getOrElse(
    throw new IllegalArgumentException(s"$what has a whole number, not '$text'.")
  )

  private def whole(node: JsonNode): Int =
    if (node.isInt) node.intValue
    else throw new IllegalArgumentException(s"A whole number is needed, not $node.")

  /** Without the place in the text that the parser adds, and without the last full stop. */
  private def firstLine(e: Throwable) =
    Option(e.getMessage).getOrElse(e.toString).linesIterator.next().stripSuffix(".")
}
