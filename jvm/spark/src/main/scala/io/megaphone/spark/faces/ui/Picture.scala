// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.ui

import scala.xml.Utility

import io.megaphone.spark.driver.{QueryDriver, TableRows}
import io.megaphone.spark.faces.events.Bodies
import io.megaphone.spark.faces.history.{FactsReader, Measure}

/** Where a query's state is, as a drawing for a notebook: no script, nothing from elsewhere. */
private[faces] object Picture {

  /** HTML. Throws PlanRefusedException if the query has planned no batch with state. */
  def of(query: QueryDriver): String = {
    val state = query.state
    val workers = TableRows.workers(query)
    val groups = state.groups.map { group =>
      val own = workers.filter(_.operator == group.id)
      FactsReader.group(Bodies.state(query, state, group, own))
    }
    val drawings = groups.map { group =>
      <div>Operator {s"${group.operator}"}, {group.name}</div> ++ HeatMap(group, Measure.Bytes)
    }
    Utility
      .serialize(<div class="megaphone">{Style.notebook}{Style.hatch}{drawings}</div>)
      .toString
  }
}
