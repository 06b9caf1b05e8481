// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.sql

import java.util.{Collections, Iterator => JIterator}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.connector.catalog.procedures.{
  BoundProcedure, ProcedureParameter, UnboundProcedure
}
import org.apache.spark.sql.connector.read.Scan
import org.apache.spark.sql.types._

import io.megaphone.errors.PlanRefusedException
import io.megaphone.view.Table

/** An argument of a procedure.
  *
  * @param default
  *   as an SQL expression; None if the argument is required
  */
private[sql] final case class Argument(name: String, dataType: DataType, default: Option[String]) {

  /** As it stands in a description. */
  override def toString: String =
    s"$name ${dataType.sql}${default.fold("")(value => s" DEFAULT $value")}"
}

/** A procedure of the catalog.
  *
  *   1. Spark binds it to the arguments' types when it analyses a CALL. It would round a decimal to
  *      a whole number, and without ANSI make one of any text, in silence. So numbers must be whole
  *      here, and their range is checked when the call is made.
  *   1. It runs once, on the driver, when the statement is analysed; EXPLAIN does not run it. Its
  *      result has its rows already, so they may be read any number of times.
  *
  * What is bound is an object of its own: Spark takes anything that could run for bound, and would
  * go on without `bind`.
  *
  * Threads: any.
  *
  * @param summary
  *   one sentence: what it does
  */
private[sql] abstract class Procedure[A](
    override val name: String,
    summary: String,
    arguments: Vector[Argument],
    result: Table[A]
) extends UnboundProcedure {
  import Procedure._

  /** Does it, and returns the rows of the result. */
  protected def run(in: Given): Seq[A]

  /** DESCRIBE PROCEDURE shows nothing else, so the arguments are here too. */
  override def description: String = {
    val named = if (arguments.isEmpty) "none" else arguments.mkString(", ")
    s"$summary Arguments: $named."
  }

  override def bind(types: StructType): BoundProcedure = SqlErrors.naming {
    for {
      (field, index) <- types.fields.zipWithIndex
      // A name that is none of ours is Spark's to refuse.
      argument <- arguments
        .find(_.name.equalsIgnoreCase(field.name))
        .orElse(arguments.lift(index).filter(_ => field.name == s"param$index"))
      if !fits(argument.dataType, field.dataType)
    } throw PlanRefusedException.invalidArgument(
      argument.name,
      s"is of type ${field.dataType.sql}, but " +
        s"${wanted(argument.dataType)} needed (${argument.dataType.sql}); give it as one"
    )
    new Bound
  }

  private final class Bound extends BoundProcedure {
    override def name: String = Procedure.this.name
    override def description: String = Procedure.this.description
    override def isDeterministic: Boolean = false

    override def parameters: Array[ProcedureParameter] = arguments.map { a =>
      val parameter = ProcedureParameter.in(a.name, a.dataType)
      a.default.fold(parameter)(parameter.defaultValue).build()
    }.toArray

    override def call(input: InternalRow): JIterator[Scan] = SqlErrors.naming {
      val rows = run(new Given(arguments, input))
      Collections.singleton[Scan](SqlRows.scan(result)(rows)).iterator
    }
  }
}

private[sql] object Procedure {

  private def wanted(argument: DataType): String = argument match {
    case DoubleType => "a number is"
    case BooleanType => "true or false is"
    case _ => "whole numbers are"
  }

  /** Whether a value can be read as an argument with no rounding; others are Spark's to check. */
  private def fits(argument: DataType, value: DataType): Boolean = (argument, value) match {
    case (LongType, ByteType | ShortType | IntegerType | LongType | NullType) => true
    case (_: MapType, NullType) => true
    case (MapType(key, of, _), MapType(valueKey, valueOf, _)) =>
      fits(key, valueKey) && fits(of, valueOf)
    case (DoubleType, _: NumericType | NullType) => true
    case (BooleanType, BooleanType | NullType) => true
    case (LongType | DoubleType | BooleanType | _: MapType, _) => false
    case _ => true
  }

  /** The arguments of one call, by name. A required one that is NULL is refused: read as a number
    * it would be 0.
    */
  final class Given(arguments: Vector[Argument], input: InternalRow) {
    def text(name: String): Option[String] = value(name)(input.getUTF8String(_).toString)
    def long(name: String): Option[Long] = value(name)(input.getLong)
    def int(name: String): Option[Int] = long(name).map(inRange(name, _))

    def boolean(name: String): Option[Boolean] = value(name)(input.getBoolean)

    def double(name: String): Option[Double] = value(name)(input.getDouble)

    /** A map of numbers, in its order. */
    def pairs(name: String): Option[Vector[(Int, Int)]] = value(name) { i =>
      pairsOf(name, "bin", "worker", input.getMap(i)) { (values, at) =>
        inRange(name, values.getLong(at))
      }.map { case (bin, worker) => inRange(name, bin) -> worker }
    }

    /** A map of numbers to texts, in its order. */
    def texts(name: String): Option[Vector[(Int, String)]] = value(name) { i =>
      pairsOf(name, "worker", "executor", input.getMap(i))((values, at) =>
        values.getUTF8String(at).toString
      )
        .map { case (key, text) => inRange(name, key) -> text }
    }

    /** What a required argument has. */
    def required[A](name: String, value: Option[A]): A = value.getOrElse(
      throw PlanRefusedException.invalidArgument(name, "is NULL, but it is required; give a value")
    )

    private def value[A](name: String)(read: Int => A): Option[A] = {
      val index = arguments.indexWhere(_.name == name)
      Option.when(!input.isNullAt(index))(read(index))
    }

    private def inRange(name: String, number: Long): Int =
      if (number.isValidInt) number.toInt
      else
        throw PlanRefusedException.invalidArgument(
          name,
          s"has $number, which is beyond any number of bins or workers; give a smaller one"
        )

    private def pairsOf[A](name: String, key: String, of: String, map: MapData)(
        read: (ArrayData, Int) => A
    ): Vector[(Long, A)] = {
      val (keys, values) = (map.keyArray(), map.valueArray())
      (0 until map.numElements()).map { i =>
        if (values.isNullAt(i))
          throw PlanRefusedException.invalidArgument(
            name,
            s"has no $of for $key ${keys.getLong(i)}; give one for each $key"
          )
        keys.getLong(i) -> read(values, i)
      }.toVector
    }
  }
}
