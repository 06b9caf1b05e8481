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

/** How the exchange's partition key is derived from the state keys of a column family.
  *
  * @param extractor
  *   None if the state key is the partition key, or begins with its columns
  * @param schema
  *   the partition key's schema
  * @param prefix
  *   what a key's prefix, the first columns that a family may be scanned by, says about the
  *   partition key
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

  /** The partition key is a struct in the prefix, in the column where the state key has it. */
  case object PrefixHasKey extends Prefix

  /** Keys with one prefix may have different partition keys. */
  case object PrefixTellsNothing extends Prefix

  /** The partition key of a family.
    *
    * @param operator
    *   Spark's name of the operator
    * @param store
    *   the store's name. The state keys of a join depend on the store in its first two state
    *   formats, and on the family in the later ones.
    * @param specOf
    *   how the other families of the store encode their keys, by name
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
          /* The columns before the time are the join's keys. Spark's factory would count the time
           * as one of them. */
          case _: TimestampAsPostfixKeyStateEncoderSpec =>
            by(new DropLastNFieldsStatePartitionKeyExtractor(keys, 1), PrefixIsKey)
          case _: TimestampAsPrefixKeyStateEncoderSpec =>
            by(new DropLastNFieldsStatePartitionKeyExtractor(keys, 1), PrefixTellsNothing)
          case _ =>
            val isNamed = family != StateStore.DEFAULT_COL_FAMILY_NAME
            if (store == StateStoreId.DEFAULT_STORE_NAME && !isNamed)
              whole // the default family of a store with families: always empty
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
      // The default family is always empty.
      case tws
          if TransformWithState.contains(tws) && family != StateStore.DEFAULT_COL_FAMILY_NAME =>
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
        // Values, lists and the counts of their elements are keyed by the grouping key.
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

  /** Whether the TTL family of these keys belongs to a map. For a reader that does not know the
    * map's own family.
    */
  private def isComposite(keys: StructType): Boolean = keys.last.dataType match {
    case element: StructType => element.fieldNames.sameElements(Array("key", "userKey"))
    case _ => false
  }

  /** The first join state formats with named stores (2) and with column families (3). Later formats
    * of each kind use the same keys.
    */
  private val StoresFormat = 2
  private val FamiliesFormat = 3
}
