/** Goes on after whatever waits for the event loop had its turn: long loops call it every few milliseconds. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
