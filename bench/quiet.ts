// Lets the parts of `make bench` measure idle processes side by side, while nothing else is busy. bench/schedule.ts
// is the other end.

/** What a part tells the runner: that it would wait and measure now, and that it would work again. */
export type Wish = 'quiet' | 'turn';

/**
 * Runs `measure`, which waits and reads what idle processes use. Under `make bench` it begins when all parts that
 * measure so have got this far, and this resolves when no other part works.
 */
export async function whileQuiet<T>(measure: () => Promise<T>): Promise<T> {
  await ask('quiet');
  const measured = await measure();
  await ask('turn');
  return measured;
}

/** A part that runs by itself needs to ask nobody. */
function ask(wish: Wish): Promise<void> {
  if (process.send === undefined) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const gone = (): void => reject(new Error('make bench ended'));
    process.once('disconnect', gone);
    process.once('message', () => {
      process.off('disconnect', gone);
      resolve();
    });
    process.send?.(wish);
  });
}
