// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.sql

import java.util.{Collections, Locale, Map => JMap}

import org.apache.spark.sql.catalyst.analysis.{
  NoSuchFunctionException, NoSuchNamespaceException, NoSuchTableException
}
import org.apache.spark.sql.connector.catalog.{
  Column, Identifier, NamespaceChange, ProcedureCatalog, SupportsNamespaces, Table, TableCatalog,
  TableChange
}
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** The catalog `megaphone`, which has one namespace, `system`: its procedures move state, its
  * tables show where it is. The plugin registers it for every session of the application, unless
  * that name is taken.
  *
  * Names are found in upper and lower case. Nothing in it can be created, changed or dropped.
  *
  * Threads: any.
  */
final class MegaphoneCatalog extends TableCatalog with SupportsNamespaces with ProcedureCatalog {
  import MegaphoneCatalog._

  private var catalogName = "megaphone"

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit =
    catalogName = name

  override def name: String = catalogName

  /** After `USE megaphone` the namespace may be left out. */
  override def defaultNamespace: Array[String] = Namespace

  override def listTables(namespace: Array[String]): Array[Identifier] =
    within(namespace)(SystemTables.all.map(_.name))

  override def loadTable(identifier: Identifier): Table =
    SystemTables.all
      .find(isNamed(identifier, _))
      .getOrElse(
        throw new NoSuchTableException(
          (name +: identifier.namespace.toIndexedSeq) :+ identifier.name
        )
      )

  override def listProcedures(namespace: Array[String]): Array[Identifier] =
    within(namespace)(Procedures.all(catalogName).map(_.name))

  override def loadProcedure(identifier: Identifier): UnboundProcedure =
    Procedures
      .all(catalogName)
      .find(p => isSystem(identifier.namespace) && isSame(p.name, identifier.name))
      .getOrElse(throw new NoSuchFunctionException(identifier))

  override def listNamespaces: Array[Array[String]] = Array(Namespace)

  override def listNamespaces(namespace: Array[String]): Array[Array[String]] =
    if (namespace.isEmpty) listNamespaces
    else { check(namespace); Array.empty }

  override def loadNamespaceMetadata(namespace: Array[String]): JMap[String, String] = {
    check(namespace)
    Collections.singletonMap(
      SupportsNamespaces.PROP_COMMENT,
      "The state of running queries: where it is, and how it moves."
    )
  }

  override def createTable(
      identifier: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: JMap[String, String]
  ): Table = throw readOnly
  override def alterTable(identifier: Identifier, changes: TableChange*): Table = throw readOnly
  override def dropTable(identifier: Identifier): Boolean = throw readOnly
  override def renameTable(from: Identifier, to: Identifier): Unit = throw readOnly
  override def createNamespace(
      namespace: Array[String],
      properties: JMap[String, String]
  ): Unit = throw readOnly
  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit =
    throw readOnly
  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean = throw readOnly

  private def check(namespace: Array[String]): Unit =
    if (!isSystem(namespace)) throw new NoSuchNamespaceException(name +: namespace)

  /** `SHOW TABLES IN megaphone` has no namespace: there is only one. */
  private def within(namespace: Array[String])(names: Vector[String]): Array[Identifier] = {
    if (namespace.nonEmpty) check(namespace)
    names.map(Identifier.of(Namespace, _)).toArray
  }

  private def isNamed(identifier: Identifier, table: SystemTable[_]) =
    isSystem(identifier.namespace) && isSame(table.name, identifier.name)

  private def readOnly = new UnsupportedOperationException(
    s"The catalog $catalogName shows what runs, so nothing in it can be created, changed or " +
      "dropped; call its procedures to move state."
  )
}

private object MegaphoneCatalog {
  private val Namespace = Array("system")

  private def isSystem(namespace: Array[String]) =
    namespace.length == 1 && isSame(Namespace.head, namespace.head)

  private def isSame(name: String, asked: String) = name == asked.toLowerCase(Locale.ROOT)
}
