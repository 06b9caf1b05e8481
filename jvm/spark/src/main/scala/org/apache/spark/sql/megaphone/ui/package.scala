// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone

/** The tab in Spark's UI, live and in the history server. It is here because tabs and pages are
  * private to Spark; what the pages show is made by the package `faces.ui` of the plugin. A caller
  * may rely on a failure costing the tab, and nothing else.
  */
package object ui
