// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.sql

import java.util.{Collections, Map => JMap}

import scala.util.control.NonFatal

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.AnalysisException

import io.megaphone.errors.{Conditions, MegaphoneError}

/** What SQL clients see of an error: the same sentence, with a condition and an SQLSTATE.
  *
  * Spark's clients know few exceptions by their class, and lose condition and SQLSTATE of all
  * others. So an error that the reader has made is an IllegalArgumentException, one of what cannot
  * be done is an UnsupportedOperationException, and what has failed is an AnalysisException.
  */
private[sql] object SqlErrors {

  /** What each condition of the plugin begins with in SQL, so that none is taken for Spark's. */
  val Prefix = "MEGAPHONE_"

  private val Unsupported = "0A000"
  private val Failures = Set("58030", "XX000")
  private val SqlStates = Conditions.all.map(c => c.name -> c.sqlState).toMap

  /** Runs `body`, whose errors become those of SQL. An InterruptedException stays what it is: it
    * cancels the statement.
    */
  def naming[A](body: => A): A =
    try body
    catch {
      case e: Exception with SparkThrowable => throw e
      case e: Exception with MegaphoneError => throw of(e, e.condition)
      case NonFatal(e) =>
        val told = Option(e.getMessage).getOrElse(e.getClass.getName)
        throw new Failed(s"The plugin failed: $told", "UNCLASSIFIED", Failures.max, e)
    }

  private def of(error: Exception, condition: String): Exception = {
    val sqlState = SqlStates.getOrElse(condition, Failures.max)
    if (sqlState == Unsupported) new CannotBeDone(error.getMessage, condition, sqlState, error)
    else if (Failures(sqlState)) new Failed(error.getMessage, condition, sqlState, error)
    else new Refused(error.getMessage, condition, sqlState, error)
  }

  private trait Named extends SparkThrowable {
    protected def conditionOf: String
    protected def sqlStateOf: String
    override def getCondition: String = Prefix + conditionOf
    override def getErrorClass: String = getCondition
    override def getSqlState: String = sqlStateOf
    override def getMessageParameters: JMap[String, String] = Collections.emptyMap()
  }

  private final class Refused(
      message: String,
      override protected val conditionOf: String,
      override protected val sqlStateOf: String,
      cause: Exception
  ) extends IllegalArgumentException(message, cause)
      with Named

  private final class CannotBeDone(
      message: String,
      override protected val conditionOf: String,
      override protected val sqlStateOf: String,
      cause: Exception
  ) extends UnsupportedOperationException(message, cause)
      with Named

  private final class Failed(message: String, condition: String, sqlState: String, cause: Throwable)
      extends AnalysisException(
        message,
        cause = Some(cause),
        errorClass = Some(Prefix + condition),
        messageParameters = Map.empty
      ) {
    override def getSqlState: String = sqlState
  }
}
