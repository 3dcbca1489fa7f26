// Lets a long loop yield to the event loop, so that it does not block other requests.

/** Resolves after the event loop has run pending callbacks. Long loops await it every few milliseconds. */
export function yieldToEventLoop(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

const waiting: (() => void)[] = [];

/** The same for work in slices: however many wait, one goes on in each turn of the event loop, in their order. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve);
    if (waiting.length === 1) setImmediate(goOn);
  });
}

function goOn(): void {
  waiting.shift()?.();
  if (waiting.length > 0) setImmediate(goOn);
}
