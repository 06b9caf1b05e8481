// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.sql

import java.util.{Collections, Map => JMap}

import scala.util.control.NonFatal

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.AnalysisException

import io.megaphone.errors.{Condition, Conditions, MegaphoneError}

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
  private val Failure = "XX000"
  private val Failures = Set("58030", Failure)
  private val Known = Conditions.all.map(c => c.name -> c).toMap

  /** Runs `body`, whose errors become those of SQL. An InterruptedException stays what it is: it
    * cancels the statement.
    */
  def naming[A](body: => A): A =
    try body
    catch {
      case e: Exception with SparkThrowable => throw e
      case e: Exception with MegaphoneError =>
        throw of(e, Known.getOrElse(e.condition, unlisted(e.condition)))
      case NonFatal(e) =>
        val told = Option(e.getMessage).getOrElse(e.getClass.getName)
        throw new Failed(s"The plugin failed: $told", unlisted("UNCLASSIFIED"), e)
    }

  private def unlisted(name: String) = Condition(name, Failure, "")

  private def of(error: Exception, condition: Condition): Exception =
    if (condition.sqlState == Unsupported) new CannotBeDone(error, condition)
    else if (Failures(condition.sqlState)) new Failed(error.getMessage, condition, error)
    else new Refused(error, condition)

  private trait Named extends SparkThrowable {
    protected def condition: Condition
    override def getCondition: String = Prefix + condition.name
    override def getErrorClass: String = getCondition
    override def getSqlState: String = condition.sqlState
    override def getMessageParameters: JMap[String, String] = Collections.emptyMap()
  }

  private final class Refused(error: Exception, override protected val condition: Condition)
      extends IllegalArgumentException(error.getMessage, error)
      with Named

  private final class CannotBeDone(error: Exception, override protected val condition: Condition)
      extends UnsupportedOperationException(error.getMessage, error)
      with Named

  private final class Failed(message: String, condition: Condition, cause: Throwable)
      extends AnalysisException(
        message,
        cause = Some(cause),
        errorClass = Some(Prefix + condition.name),
        messageParameters = Map.empty
      ) {
    override def getSqlState: String = condition.sqlState
  }
}
