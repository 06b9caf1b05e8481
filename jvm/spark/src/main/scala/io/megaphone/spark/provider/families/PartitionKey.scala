// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.provider.families

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils.{
  SESSION_WINDOW_STATE_STORE_SAVE_EXEC_OP_NAME => SessionWindow
}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorsUtils.{
  SYMMETRIC_HASH_JOIN_EXEC_OP_NAME => Join, TRANSFORM_WITH_STATE_OP_NAMES => TransformWithState
}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatePartitionKeyExtractorFactory
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate._
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.timers.TimerStateUtils
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** How the keys of a column family lead to the key that the exchange routes by.
  *
  * @param extractor
  *   None where the state key is the partition key, or begins with its columns
  * @param schema
  *   the partition key's
  * @param prefix
  *   what the first columns of a key, where a family is scanned by them, tell of it
  */
private[provider] final case class PartitionKey(
    extractor: Option[StatePartitionKeyExtractor],
    schema: StructType,
    prefix: PartitionKey.Prefix
)

private[provider] object PartitionKey {
  sealed trait Prefix

  /** The prefix is the partition key. */
  case object PrefixIsKey extends Prefix

  /** The partition key is a struct among the prefix's columns, where the state key has it. */
  case object PrefixHasKey extends Prefix

  /** The prefix leads to no one partition key. */
  case object PrefixTellsNothing extends Prefix

  /** Of a family.
    *
    * @param operator
    *   Spark's name of the operator
    * @param store
    *   the store's name: a join's stores have keys of different kinds in its first two formats, its
    *   families in the others
    * @param specOf
    *   how the other families of the store keep their keys, by name
    */
  def of(
      operator: String,
      store: String,
      family: String,
      spec: KeyStateEncoderSpec,
      specOf: String => Option[KeyStateEncoderSpec]
  ): PartitionKey = {
    val keys = spec.keySchema
    def whole = PartitionKey(None, keys, PrefixTellsNothing)
    def by(extractor: StatePartitionKeyExtractor, prefix: Prefix) = extractor match {
      case leading: DropLastNFieldsStatePartitionKeyExtractor =>
        PartitionKey(None, leading.partitionKeySchema, prefix)
      case other => PartitionKey(Some(other), other.partitionKeySchema, prefix)
    }
    operator match {
      case SessionWindow =>
        by(StatePartitionKeyExtractorFactory.create(operator, keys), PrefixIsKey)
      case Join =>
        spec match {
          /* The columns before the time are the join's keys. Spark's factory takes the time for one
           * of them. */
          case _: TimestampAsPostfixKeyStateEncoderSpec =>
            by(new DropLastNFieldsStatePartitionKeyExtractor(keys, 1), PrefixIsKey)
          case _: TimestampAsPrefixKeyStateEncoderSpec =>
            by(new DropLastNFieldsStatePartitionKeyExtractor(keys, 1), PrefixTellsNothing)
          case _ =>
            val isNamed = family != StateStore.DEFAULT_COL_FAMILY_NAME
            if (store == StateStoreId.DEFAULT_STORE_NAME && !isNamed)
              whole // of a store with families: holds nothing
            else
              by(
                StatePartitionKeyExtractorFactory.create(
                  operator,
                  keys,
                  store,
                  family,
                  Some(if (isNamed) FamiliesFormat else StoresFormat)
                ),
                PrefixTellsNothing
              )
        }
      case tws
          if TransformWithState.contains(
            tws
          ) && family != StateStore.DEFAULT_COL_FAMILY_NAME => // the default family holds nothing
        val kind = StateStoreColumnFamilySchemaUtils
        val isTimer = TimerStateUtils.isTimerCFName(family)
        val isTtl = !isTimer && kind.isTtlColFamilyName(family)
        def isMap(of: KeyStateEncoderSpec) = of.isInstanceOf[PrefixKeyScanStateEncoderSpec]
        val variable =
          if (isTimer) Some(StateVariableType.TimerState)
          else if (isTtl)
            Some(
              if (specOf(kind.getBaseStateName(family)).fold(isComposite(keys))(isMap))
                StateVariableType.MapState
              else StateVariableType.ValueState
            )
          else Some(StateVariableType.MapState).filter(_ => isMap(spec))
        // Values and lists are kept by the grouping key, and so is what counts their elements.
        variable.fold(whole) { kindOfVariable =>
          val info = TransformWithStateVariableInfo(
            if (isTimer) family else kind.getBaseStateName(family),
            kindOfVariable,
            ttlEnabled = isTtl
          )
          val isTimeFirst = isTtl || (isTimer && TimerStateUtils.isTimerSecondaryIndexCF(family))
          by(
            StatePartitionKeyExtractorFactory
              .create(operator, keys, colFamilyName = family, stateVariableInfo = Some(info)),
            if (isTimeFirst) PrefixTellsNothing else PrefixHasKey
          )
        }
      case _ => whole
    }
  }

  /** Whether an expiring element is one of a map, by its key: for a reader that knows nothing of
    * the map.
    */
  private def isComposite(keys: StructType): Boolean = keys.last.dataType match {
    case element: StructType => element.fieldNames.sameElements(Array("key", "userKey"))
    case _ => false
  }

  /** Join state formats with the named stores, and with families: of each, those after it have the
    * same keys.
    */
  private val StoresFormat = 2
  private val FamiliesFormat = 3
}
