// Metrics in the Prometheus data model, without a global registry: parts are handed a `Metrics`.

export interface MetricOptions<Labels extends string> {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly Labels[];
  /**
   * How many time series there may be, where that is more than the usual bound and something else
   * keeps to it (a setting of the operator, say).
   */
  readonly mostSeries?: number;
}

type LabelValues<Labels extends string> = Readonly<Record<Labels, string>>;

/** The time series of one metric. */
interface Series<Labels extends string> {
  /**
   * Drops what has these values, of all labels or of some: what they name is gone. One that comes back
   * begins anew. Grows with the series of the metric, unless all labels are given.
   */
  forget(labels: Partial<LabelValues<Labels>>): void;
}

export interface Counter<Labels extends string> extends Series<Labels> {
  add(labels: LabelValues<Labels>, by?: number): void;
}

export interface Gauge<Labels extends string> extends Series<Labels> {
  set(labels: LabelValues<Labels>, value: number): void;
}

export interface Histogram<Labels extends string> extends Series<Labels> {
  observe(labels: LabelValues<Labels>, value: number): void;
}

/**
 * Declaring the same name twice is a programming error and throws. Label values must come from a
 * bounded set: never from a request as it came in.
 */
export interface Metrics {
  counter<Labels extends string = never>(options: MetricOptions<Labels>): Counter<Labels>;
  gauge<Labels extends string = never>(options: MetricOptions<Labels>): Gauge<Labels>;
  /** Buckets are upper bounds in ascending order; +Inf is implied. */
  histogram<Labels extends string = never>(
    options: MetricOptions<Labels> & { readonly buckets: readonly number[] },
  ): Histogram<Labels>;
  /**
   * Reads a value when scraped; for sizes and ages that already exist somewhere. Where there are
   * thousands, `read` is a generator that yields after every few, so that others can run.
   */
  observe<Labels extends string = never>(
    options: MetricOptions<Labels>,
    read: (
      report: (labels: LabelValues<Labels>, value: number) => void,
    ) => void | Generator<undefined, void>,
  ): void;
  /** The Prometheus text exposition format, version 0.0.4. */
  expose(): string;
  /** The same in pieces (some of them empty), each of which takes little time to make. */
  pieces(): Generator<string, void>;
}
