/**
 * A callback of the application whose errors stay its own: they end up as uncaught exceptions. mysql2 would take one that
 * is thrown while it reads an answer for an error of the connection, close it, and tell nobody.
 */
export function ownErrors<Given extends readonly unknown[]>(callback: (...given: Given) => void) {
  return (...given: Given): void => {
    try {
      callback(...given);
    } catch (error) {
      process.nextTick(() => {
        throw error;
      });
    }
  };
}
