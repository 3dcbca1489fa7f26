// Lets a long loop yield to the event loop, so that it does not block other requests.

/** Resolves after the event loop has run pending callbacks. Long loops await it every few milliseconds. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
