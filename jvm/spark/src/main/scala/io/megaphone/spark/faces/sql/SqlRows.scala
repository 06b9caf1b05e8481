// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.sql

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.connector.read.LocalScan
import org.apache.spark.sql.types.{
  ArrayType, BooleanType, DataType, IntegerType, LongType, StringType, StructField, StructType
}
import org.apache.spark.unsafe.types.UTF8String

import io.megaphone.view.{Bool, Column, Int32, Int32List, Int64, Int64List, Kind, Table, Text}

/** Rows of any table in Spark's terms. */
private[sql] object SqlRows {

  /** The schema, with what each column means as its comment. */
  def schemaOf[A](table: Table[A]): StructType = StructType(table.columns.map { c =>
    StructField(c.name, typeOf(c.kind), c.isNullable).withComment(c.doc)
  })

  private def rowOf[A](table: Table[A], row: A): InternalRow =
    InternalRow.fromSeq(table.columns.map(c => valueOf(c.value(row))))

  /** A scan that has its rows already, or gets them when it is executed. It runs no job, so no
    * executor needs a class of ours.
    */
  def scan[A](table: Table[A])(asked: => Seq[A]): LocalScan = new LocalScan {
    override def readSchema(): StructType = schemaOf(table)
    override def rows(): Array[InternalRow] =
      SqlErrors.naming(asked.iterator.map(rowOf(table, _)).toArray)
    override def description(): String = s"megaphone.${table.name}"
  }

  /** A table with columns before those of `table`. */
  def prefixed[A, B](prefix: Vector[Column[A]], table: Table[B]): Table[(A, B)] = Table(
    table.name,
    table.doc,
    prefix.map(c => c.copy[(A, B)](value = (row: (A, B)) => c.value(row._1))) ++
      table.columns.map(c => c.copy[(A, B)](value = (row: (A, B)) => c.value(row._2)))
  )

  private def typeOf(kind: Kind): DataType = kind match {
    case Int32 => IntegerType
    case Int64 => LongType
    case Text => StringType
    case Bool => BooleanType
    case Int32List => ArrayType(IntegerType, containsNull = false)
    case Int64List => ArrayType(LongType, containsNull = false)
  }

  private def valueOf(value: Any): Any = value match {
    case option: Option[_] => option.map(valueOf).orNull
    case text: String => UTF8String.fromString(text)
    case values: Seq[_] => new GenericArrayData(values.toArray[Any])
    case other => other
  }
}
