// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.sql

import java.util.{Collections, Iterator => JIterator}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.MapData
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
  *      a whole number in silence, so decimals are refused here.
  *   1. It runs once, on the driver, when the statement is analysed; EXPLAIN does not run it. Its
  *      result has its rows already, so they may be read any number of times.
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
) extends UnboundProcedure
    with BoundProcedure {
  import Procedure._

  /** Does it, and returns the rows of the result. */
  protected def run(in: Given): Seq[A]

  /** DESCRIBE PROCEDURE shows nothing else, so the arguments are here too. */
  override def description: String = {
    val named = if (arguments.isEmpty) "none" else arguments.mkString(", ")
    s"$summary Arguments: $named."
  }

  override def bind(types: StructType): BoundProcedure = SqlErrors.naming {
    for ((field, index) <- types.fields.zipWithIndex if isFractional(field.dataType)) {
      val argument =
        arguments.find(_.name.equalsIgnoreCase(field.name)).orElse(arguments.lift(index))
      argument.foreach { a =>
        throw PlanRefusedException.invalidArgument(
          a.name,
          s"is of type ${field.dataType.sql}, but whole numbers are needed (${a.dataType.sql}); " +
            "leave out the decimals"
        )
      }
    }
    this
  }

  override def parameters: Array[ProcedureParameter] = arguments.map { a =>
    val parameter = ProcedureParameter.in(a.name, a.dataType)
    a.default.fold(parameter)(parameter.defaultValue).build()
  }.toArray

  override def isDeterministic: Boolean = false

  override def call(input: InternalRow): JIterator[Scan] = SqlErrors.naming {
    val rows = run(new Given(arguments, input))
    Collections.singleton[Scan](SqlRows.scan(result)(rows)).iterator
  }
}

private[sql] object Procedure {

  private def isFractional(dataType: DataType): Boolean = dataType match {
    case decimal: DecimalType => decimal.scale > 0
    case DoubleType | FloatType => true
    case MapType(key, value, _) => isFractional(key) || isFractional(value)
    case _ => false
  }

  /** The arguments of one call, by name. A required one that is NULL is refused: read as a number
    * it would be 0.
    */
  final class Given(arguments: Vector[Argument], input: InternalRow) {
    def text(name: String): Option[String] = value(name)(input.getUTF8String(_).toString)
    def int(name: String): Option[Int] = value(name)(input.getInt)
    def long(name: String): Option[Long] = value(name)(input.getLong)

    /** A map of numbers, in its order. */
    def pairs(name: String): Option[Vector[(Int, Int)]] =
      value(name)(i => pairsOf(name, input.getMap(i)))

    /** What a required argument has. */
    def required[A](name: String, value: Option[A]): A = value.getOrElse(
      throw PlanRefusedException.invalidArgument(name, "is NULL, but it is required; give a value")
    )

    private def value[A](name: String)(read: Int => A): Option[A] = {
      val index = arguments.indexWhere(_.name == name)
      Option.when(!input.isNullAt(index))(read(index))
    }

    private def pairsOf(name: String, map: MapData): Vector[(Int, Int)] = {
      val (keys, values) = (map.keyArray(), map.valueArray())
      (0 until map.numElements()).map { i =>
        if (values.isNullAt(i))
          throw PlanRefusedException.invalidArgument(
            name,
            s"has no worker for bin ${keys.getInt(i)}; give one for each bin"
          )
        keys.getInt(i) -> values.getInt(i)
      }.toVector
    }
  }
}
