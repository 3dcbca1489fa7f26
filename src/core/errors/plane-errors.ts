// Error codes that a plane adds to the taxonomy. A plane declares each of its codes once, as in
//
//   export const harbourErrors = { HANSA_PIER_TAKEN: { like: 'HANSA_CONFLICT', … } } as const satisfies PlaneErrors;
//   declare module '../core/errors/error.ts' {
//     interface PlaneErrorCodes extends Record<keyof typeof harbourErrors, true> {}
//   }
//   export const harbourError = errorMaker(harbourErrors);
//
// so that `ErrorCode` stays a closed union that the compiler checks.

import {
  type CoreErrorCode,
  type ErrorCode,
  errorCatalog,
  type ErrorExplanation,
  type ErrorOptions,
  HansaError,
} from './error.ts';

export interface PlaneErrorExplanation extends ErrorExplanation {
  /** The core code with the same HTTP status, gRPC status and exit code. */
  readonly like: CoreErrorCode;
}

/** By code. */
export type PlaneErrors = Readonly<Record<string, PlaneErrorExplanation>>;

/** How a plane creates its errors: with its own codes, and with those of the core. */
export function errorMaker<Errors extends PlaneErrors>(
  errors: Errors,
): (
  code: CoreErrorCode | (keyof Errors & ErrorCode),
  message: string,
  options?: ErrorOptions,
) => HansaError {
  return (code, message, options) => {
    const like = Object.hasOwn(errors, code) ? errors[code]?.like : undefined;
    if (like !== undefined) return new HansaError({ code, general: like }, message, options);
    return new HansaError(code as CoreErrorCode, message, options);
  };
}

/** Every code of a program with its explanation: those of the core, then those of its planes. */
export type ErrorCatalog = ReadonlyMap<string, PlaneErrorExplanation>;

/** Throws a TypeError where a code is declared twice, which is a bug. */
export function catalogOf(
  planes: readonly { readonly name: string; readonly errors?: PlaneErrors }[],
): ErrorCatalog {
  const catalog = new Map<string, PlaneErrorExplanation>(
    Object.entries(errorCatalog).map(([code, explanation]) => [
      code,
      { ...explanation, like: code as CoreErrorCode },
    ]),
  );
  for (const { name, errors = {} } of planes) {
    for (const [code, explanation] of Object.entries(errors)) {
      if (catalog.has(code)) throw new TypeError(`Error code ${code} of ${name} exists already`);
      catalog.set(code, explanation);
    }
  }
  return catalog;
}

/** Rebuilds an error from a response, if the catalog knows its code. */
export function errorOfCode(
  catalog: ErrorCatalog,
  code: string,
  message: string,
  options?: ErrorOptions,
): HansaError {
  const like = catalog.get(code)?.like;
  if (like === undefined) return new HansaError('HANSA_INTERNAL', message, options);
  return new HansaError({ code: code as ErrorCode, general: like }, message, options);
}
