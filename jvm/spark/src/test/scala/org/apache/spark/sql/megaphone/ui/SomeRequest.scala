// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.megaphone.ui

import java.lang.reflect.{InvocationHandler, Method, Proxy}

import jakarta.servlet.http.HttpServletRequest

/** A request with parameters, and nothing else. */
private object SomeRequest {
  def apply(parameters: (String, String)*): HttpServletRequest = {
    val handler: InvocationHandler = (_: Any, method: Method, arguments: Array[AnyRef]) =>
      method.getName match {
        case "getParameter" => parameters.toMap.getOrElse(arguments(0).toString, null)
        case "getRequestURI" => "/"
        case _ => null
      }
    Proxy
      .newProxyInstance(getClass.getClassLoader, Array(classOf[HttpServletRequest]), handler)
      .asInstanceOf[HttpServletRequest]
  }
}
