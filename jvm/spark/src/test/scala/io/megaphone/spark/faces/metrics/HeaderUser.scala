// SPDX-License-Identifier: Apache-2.0
package io.megaphone.spark.faces.metrics

import jakarta.servlet.{Filter, FilterChain, ServletRequest, ServletResponse}
import jakarta.servlet.http.{HttpServletRequest, HttpServletRequestWrapper}

/** Believes who a request says that it comes from. Stands for a filter that asks for a password. */
final class HeaderUser extends Filter {
  override def doFilter(
      request: ServletRequest,
      response: ServletResponse,
      chain: FilterChain
  ): Unit = {
    val asked = request.asInstanceOf[HttpServletRequest]
    chain.doFilter(
      new HttpServletRequestWrapper(asked) {
        override def getRemoteUser: String = asked.getHeader(HeaderUser.Header)
      },
      response
    )
  }
}

object HeaderUser {
  val Header = "X-User"
}
