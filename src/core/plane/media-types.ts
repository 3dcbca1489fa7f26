// Reads the headers Content-Type and Accept.

/** Without parameters, in lower case. JSON where the header is missing, as in Kubernetes. */
export function mediaTypeOf(contentType: string | undefined): string {
  if (contentType === undefined || contentType === '') return 'application/json';
  const semicolon = contentType.indexOf(';');
  return (semicolon < 0 ? contentType : contentType.slice(0, semicolon)).trim().toLowerCase();
}

export interface MediaRange {
  /** In lower case. */
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
}

/** The media ranges of an Accept header, in order of preference (RFC 9110 section 12.5.1). */
export function mediaRanges(accept: string): readonly MediaRange[] {
  const ranges = accept.split(',').map((text) => {
    const [type = '', ...rest] = text.split(';').map((part) => part.trim());
    const parameters = new Map(
      rest.map((parameter) => parameter.split('=', 2) as [string, string]),
    );
    const quality = Number(parameters.get('q') ?? 1);
    return {
      type: type.toLowerCase(),
      parameters,
      quality: Number.isNaN(quality) ? 0 : quality,
    };
  });
  return ranges.toSorted((left, right) => right.quality - left.quality);
}
