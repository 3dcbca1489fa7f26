// Remembers the last result of a pure function.

/** Calls a pure function again only for another argument than the last one. */
export function latest<A, R>(read: (argument: A) => R): (argument: A) => R {
  let last: { readonly argument: A; readonly result: R } | undefined;
  return (argument) => {
    if (last === undefined || last.argument !== argument) {
      last = { argument, result: read(argument) };
    }
    return last.result;
  };
}
