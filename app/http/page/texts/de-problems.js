/**
 * Errors of the service in German, by their codes. The service writes English, so English needs none; an error that is not
 * here is shown as the service says it.
 */

export default {
  "problem.accounts_unavailable":
    "Die Schlüssel können gerade nicht geprüft werden. Versuchen Sie es später noch einmal.",
  "problem.body_too_large": "Das ist dem Dienst zu groß. ({detail})",
  "problem.concurrency_exceeded":
    "Dieser Schlüssel hat zu viele Anfragen gleichzeitig. Versuchen Sie es gleich noch einmal.",
  "problem.deadline_exceeded":
    "Die Übersetzung hat zu lange gedauert. Versuchen Sie es noch einmal oder mit weniger Text.",
  "problem.deadline_unreachable": "Der Dienst ist gerade zu beschäftigt. Versuchen Sie es gleich noch einmal.",
  "problem.detected_pair_not_served":
    "Der Text scheint in einer Sprache zu sein, aus der nicht in die gewählte übersetzt wird. ({detail})",
  "problem.document_not_found": "Diese Datei gibt es im Dienst nicht mehr.",
  "problem.document_refused": "Diese Datei kann nicht gelesen werden. ({detail})",
  "problem.document_too_complex": "Diese Datei ist zu verschachtelt. ({detail})",
  "problem.document_too_large": "Diese Datei ist zu groß. ({detail})",
  "problem.documents_full":
    "Der Dienst nimmt gerade keine weiteren Dateien an. Entfernen Sie eine oder warten Sie etwas.",
  "problem.glossary_not_found": "Dieses Glossar gibt es nicht mehr.",
  "problem.inference_failed": "Beim Übersetzen ist ein Fehler aufgetreten. Versuchen Sie es noch einmal.",
  "problem.language_not_detected": "Die Sprache wurde nicht erkannt. Wählen Sie sie oben aus.",
  "problem.limit_exceeded": "Das ist mehr, als der Dienst auf einmal annimmt. ({detail})",
  "problem.not_ready": "Der Dienst startet noch.",
  "problem.pair_in_two_legs":
    "Diese Sprachen übersetzen zwei Modelle nacheinander; hier ist nur eines zu sehen. Wählen Sie andere Sprachen.",
  "problem.queue_full": "Der Dienst ist gerade zu beschäftigt. Versuchen Sie es gleich noch einmal.",
  "problem.quota_exceeded": "Das Kontingent dieses Schlüssels ist verbraucht. ({detail})",
  "problem.rate_limited": "Das waren zu viele Anfragen in kurzer Zeit. Versuchen Sie es gleich noch einmal.",
  "problem.several_sentences": "Diese Ansicht zeigt einen einzelnen Satz, der Text hat mehrere.",
  "problem.storage_full": "Der Dienst hat keinen Platz mehr für Dateien.",
  "problem.unauthorized": "Dieser Dienst verlangt einen Schlüssel.",
  "problem.unsupported_document": "Dieses Dateiformat wird nicht unterstützt.",
  "problem.unsupported_pair": "Zwischen diesen Sprachen wird nicht übersetzt. Wählen Sie andere.",
};
