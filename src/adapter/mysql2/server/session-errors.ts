/** A server that closes an idle connection in order, with or without a last word. */
export function isFarewell(error: Error | undefined): boolean {
  if (error === undefined) return true;
  const { code, fatal } = error as { readonly code?: unknown; readonly fatal?: unknown };
  return fatal === true && (code === 'PROTOCOL_CONNECTION_LOST' || !/^E[A-Z]+$/.test(String(code)));
}

/** What mysql2 says to callbacks when a connection ends without an error of its own. */
export function connectionLost(address: string): Error {
  return Object.assign(new Error(`Connection lost: ${address} closed the connection`), {
    code: 'PROTOCOL_CONNECTION_LOST',
    fatal: true,
  });
}

/** The error of a statement that took too long, as mysql2 has it, with the endpoint where there was one. */
export function queryTimeout(address: string | undefined, limitMs: number): Error {
  const what = address === undefined ? 'no server could take the statement' : `${address} did not answer`;
  return Object.assign(new Error(`Query inactivity timeout: ${what} within ${limitMs} ms`), {
    code: 'PROTOCOL_SEQUENCE_TIMEOUT',
    errorno: 'PROTOCOL_SEQUENCE_TIMEOUT',
    syscall: 'query',
  });
}
